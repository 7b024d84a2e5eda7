#!/usr/bin/env python3
"""tally.py counts what each kind of test program prints, and never a failure as a success."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tally  # noqa: E402

CMOCKA = """[==========] Running 3 test(s).
[ RUN      ] a
[       OK ] a
[==========] 3 test(s) run.
[  PASSED  ] 1 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] c

 1 SKIPPED TEST(S)
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] b

 1 FAILED TEST(S)
"""
CARGO = "test a ... ok\n\ntest result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n"


class Tally(unittest.TestCase):
    def test_cmocka(self):
        self.assertEqual(tally.count(CMOCKA, False), (1, 1, 1))
        self.assertEqual(tally.count(CMOCKA + CMOCKA, False), (2, 2, 2))

    def test_cargo(self):
        self.assertEqual(tally.count(CARGO, True), (4, 0, 1))

    def test_unittest(self):
        self.assertEqual(tally.count("Ran 5 tests in 0.2s\n\nOK\n", True), (5, 0, 0))
        self.assertEqual(tally.count("Ran 5 tests in 0.2s\n\nOK (skipped=2)\n", True), (3, 0, 2))
        self.assertEqual(
            tally.count("Ran 5 tests in 0.2s\n\nFAILED (failures=1, errors=1, skipped=1)\n", False), (2, 2, 1))
        # Several failing subtests of one test are one case.
        self.assertEqual(tally.count("Ran 1 test in 0.2s\n\nFAILED (failures=7)\n", False), (0, 1, 0))

    def test_plain_line(self):
        self.assertEqual(tally.count("12 passed, 1 failed, 2 skipped\n", False), (12, 1, 2))
        self.assertEqual(tally.count("said 12 passed, 1 failed in passing\n", True), (1, 0, 0))

    def test_program_without_a_count_is_one_case(self):
        self.assertEqual(tally.count("hello\n", True), (1, 0, 0))
        self.assertEqual(tally.count("", False), (0, 1, 0))

    def test_crash_after_a_good_count_is_a_failure(self):
        self.assertEqual(tally.count("[  PASSED  ] 3 test(s).\n", False), (3, 1, 0))

    def test_junit(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "junit.xml")
            with open(path, "w", encoding="utf-8") as f:
                f.write('<testsuite><testcase name="a" status="run"><system-out>[  PASSED  ] 3 test(s).\n'
                        '</system-out></testcase><testcase name="b" status="fail"><failure message="Timeout"/>'
                        '<system-out>no count</system-out></testcase><testcase name="c" status="notrun">'
                        '<skipped message="no compiler"/></testcase></testsuite>')
            sums, notes = tally.of_junit(path)
            self.assertEqual(sums, [3, 1, 1])
            self.assertEqual(notes, ["failed: b: Timeout", "skipped: c: no compiler"])


if __name__ == "__main__":
    unittest.main()
