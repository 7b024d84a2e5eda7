#!/usr/bin/env python3
"""Counts test cases in what test programs print, for the closing line of tests/run.sh.

    tally.py log STATUS FILE    the output of one program that ended with STATUS
    tally.py junit FILE         what `ctest --output-junit FILE` wrote

Prints "PASSED FAILED SKIPPED", then a line for each failed or skipped program. Known are the closing
lines of cmocka, unittest, cargo test, and the plain "N passed, N failed, N skipped"; a program
that prints none of them is one case. A program that failed always counts at least one failure."""
import re
import sys
import xml.etree.ElementTree as ElementTree

PLAIN = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)
CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test\(s\)\.", re.M)
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \] (?:.*: )?(\d+) test\(s\), listed below", re.M)
CMOCKA_SKIPPED = re.compile(r"^\[  SKIPPED \] (?:.*: )?(\d+) test\(s\), listed below", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in [\d.]+s\s+^(OK|FAILED)(?: \((.*)\))?$", re.M)


def total(pattern, text):
    return sum(int(match.group(1)) for match in pattern.finditer(text))


def count(text, ended_well):
    passed = total(CMOCKA_PASSED, text)
    failed = total(CMOCKA_FAILED, text)
    skipped = total(CMOCKA_SKIPPED, text)
    for match in list(PLAIN.finditer(text)) + list(CARGO.finditer(text)):
        passed += int(match.group(1))
        failed += int(match.group(2))
        skipped += int(match.group(3) or 0)
    for match in UNITTEST.finditer(text):
        said = dict(part.split("=") for part in (match.group(3) or "").split(", ") if "=" in part)
        bad = sum(int(said.get(word, 0)) for word in ("failures", "errors", "unexpected successes"))
        ran, left_out = int(match.group(1)), int(said.get("skipped", 0))
        # Several subtests of one test may fail; it stays one case.
        bad = min(bad, max(ran - left_out, 1))
        passed += max(ran - bad - left_out, 0)
        failed += bad
        skipped += left_out
    if passed + failed + skipped == 0:
        return (1, 0, 0) if ended_well else (0, 1, 0)
    if not ended_well and failed == 0:
        failed = 1  # it counted no failure and yet failed: a crash, a leak, a sanitizer's finding
    return passed, failed, skipped


def of_log(status, path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return count(f.read(), status == "0"), []


def of_junit(path):
    sums = [0, 0, 0]
    notes = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        output = "".join(element.text or "" for element in case.iter("system-out"))
        failure, skip = case.find("failure"), case.find("skipped")
        if skip is not None:
            counted = (0, 0, 1)
            notes.append(f"skipped: {case.get('name')}: {skip.get('message') or 'not run'}")
        else:
            counted = count(output, failure is None)
            if failure is not None:
                notes.append(f"failed: {case.get('name')}: {failure.get('message') or 'see above'}")
        sums = [a + b for a, b in zip(sums, counted)]
    return sums, notes


def main(arguments):
    if arguments[:1] == ["log"] and len(arguments) == 3:
        sums, notes = of_log(arguments[1], arguments[2])
    elif arguments[:1] == ["junit"] and len(arguments) == 2:
        sums, notes = of_junit(arguments[1])
    else:
        print(__doc__, file=sys.stderr)
        return 64
    print(*sums)
    for note in notes:
        print(note)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
