"""What the tests of the command line share: running the program, and reading how it ended."""
import os
import socket
import subprocess
import sys
import time
import traceback
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import program  # noqa: E402

OK, USAGE, NO_SERVER, CANNOT_OPEN, OUTPUT, NOT_OBTAINED, AUTH = 0, 64, 69, 73, 74, 75, 77
INSUFFICIENT, LOST, NOT_CURRENT, DATA_IN_USE, CANNOT_RUN, NOT_FOUND = 82, 83, 84, 85, 126, 127
PATIENCE = 30  # seconds until a test gives up; none depends on being faster


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k not in ("TICKETING_ADDR", "TICKETING_CLIENT_TOKEN")}
    return {**kept, **more}


def cli(*arguments, addr=None, env=None, **options):
    e = environment(**(env or {}))
    if addr:
        e["TICKETING_ADDR"] = addr
    return subprocess.run([program(), *arguments], env=e, capture_output=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL, **options)


def start(*arguments, addr, **options):
    return subprocess.Popen([program(), *arguments], env=environment(TICKETING_ADDR=addr),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def shell(script, *, addr="127.0.0.1:1", **env):
    """Runs a shell script in which $T is the program, for the redirections that Python cannot do."""
    return subprocess.run(["sh", "-c", script], capture_output=True, timeout=PATIENCE,
                          env=environment(T=program(), TICKETING_ADDR=addr, **env))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"did not happen: {what}")
        time.sleep(0.02)


class Case(unittest.TestCase):
    def refused(self, result, status, *parts):
        """The exact status; every part is in the text on standard error; nothing on standard output."""
        text = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, status, text)
        for part in parts:
            self.assertIn(part, text)
        self.assertEqual(result.stdout, b"")
        # No crash, and no internals: a sentence in the program's name.
        self.assertTrue(text.startswith("ticketing"), text)

    def took(self, result):
        self.assertEqual(result.returncode, OK, result.stderr.decode())
        self.assertRegex(result.stdout.decode(), r"\A[1-9][0-9]*\n\Z")
        return result.stdout.decode().strip()


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed = 0
        self.bad = set()

    def addSuccess(self, test):
        self.passed += 1
        print(f"ok   {test.id().split('.', 1)[1]}", flush=True)

    def report(self, test, err):
        if test.id() in self.bad:
            return
        self.bad.add(test.id())
        print(f"FAIL {test.id().split('.', 1)[1]}", flush=True)
        print("".join(traceback.format_exception(*err)), flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.report(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.report(test, err)


def run_tests(module):
    program()
    loader = unittest.defaultTestLoader
    if sys.argv[1:]:
        suite = loader.loadTestsFromNames(sys.argv[1:], module)
    else:
        suite = loader.loadTestsFromModule(module)
    result = Result()
    suite.run(result)
    print(f"{result.passed} passed, {len(result.bad)} failed")
    return 1 if result.bad else 0
