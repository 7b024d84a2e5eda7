#!/usr/bin/env python3
"""Prints which tests prove which rule: rule x (unit, simulator, scenarios in each style), and the holes.

    table.py [STYLE=LOG ...]    LOG: what a scenario runner printed in that style

A unit test proves the rules its name begins with (s3_cancel_..., r1_r2_it_...), a scenario those of
its `rules` line, the simulator those that its checks name in their comments. Without logs a scenario counts for the styles
that could run it; with a log only where it passed, every value of what varies. Ends with 1 where a rule has
no test and no reason why, where a test names a rule that does not exist, or where a logged scenario failed."""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent

RULES = {
    "A1": "wait 0..255 s", "A2": "lease 1..250 s", "A3": "budget within the lease", "A4": "fractions round up",
    "A5": "keys", "A6": "addresses", "A7": "call without a budget", "A8": "refusals by name",
    "M1": "waiter before the first byte", "M2": "match by id, kind and key", "M3": "T and N are values, withdrawal",
    "M4": "B is definitive", "M5": "moved", "M6": "leader notice", "M7": "no_leader, not_active, auth_failed",
    "M8": "bad replies end the session", "M9": "replies that match nothing", "M10": "hostile servers are harmless",
    "M11": "retry with pauses", "M12": "the server itself cannot say",
    "S1": "send boundary", "S2": "sent without reply: indeterminate", "S3": "cancel", "S4": "end of a session",
    "S5": "tombstones", "S6": "deadlines", "S7": "wait on the wire",
    "G1": "enough lease left", "G2": "what a ticket knows", "G3": "grants nobody takes", "G4": "detach",
    "R1": "release within 5 s", "R2": "answers of a release", "R3": "background, joined, repeated releases",
    "R4": "release lane", "R5": "a closed socket proves nothing", "R6": "a release that gave up",
    "B1": "connect and readiness", "B2": "sessions and the hint", "B3": "several addresses, one cluster",
    "B4": "backoff and progress limits", "B5": "refused everywhere", "B6": "bounds", "B7": "close",
    "B8": "one broker for all styles", "B9": "fork",
    "T1": "TLS", "T2": "token", "T3": "secrets stay secret", "F1": "fencing",
}

# Why a rule has no test at all.
UNTESTED = {
    "A7": "a call of the JVM alone: its own tests cover it",
    "M12": "wire 3 alone",
}
# Why a rule has no scenario, or none in some style, though it has other tests.
NO_SCENARIO = {
    "A7": "a call of the JVM alone",
    "B9": "needs fork(), which not every language has",
    "M1": "a clogged connection takes hundreds of calls, too many threads; the way of the bytes is the same in every style",
    "M12": "wire 3 alone",
    "T1": "the fault server speaks plaintext",
}

# The styles of C and what they are able to do (README.md); a log may bring another style.
ABILITIES = {"blocking": {"background"}, "thread": {"handles", "background"}, "caller": {"handles", "turns"}}

PREFIX = re.compile(r"^(?:test_)?((?:[amsgrbtf]\d+_)+)")
FUNCTION = re.compile(r"\b(?:static void|def) +([a-z]\w+)\(")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
NAMED = re.compile(r"\b([AMSGRBTF]\d{1,2})\b")
WRITTEN = re.compile(r"^\| ([A-Z]\d+) \|", re.M)
RESULT = re.compile(r"^(ok|FAIL) +([^\s\[:]+)(\[.*?\])?(?=[\s:])", re.M)


def rules_of_name(name):
    match = PREFIX.match(name)
    return [r.upper() for r in match.group(1).strip("_").split("_")] if match else []


def unit_tests():
    found = {}
    for path in sorted([*TESTS.glob("unit/**/*_test.c"), *TESTS.glob("faults/*_test.py")]):
        for name in FUNCTION.findall(path.read_text()):
            for rule in rules_of_name(name):
                found.setdefault(rule, []).append(f"{path.relative_to(TESTS)}:{name}")
    return found


def simulator():
    found = {}
    for path in sorted(TESTS.glob("sim/*.[ch]")):
        for comment in COMMENT.findall(path.read_text()):
            for rule in NAMED.findall(comment):
                if rule in RULES:
                    found.setdefault(rule, set()).add(path.name)
    return found


def scenarios():
    """Name -> (rules, needs)."""
    found = {}
    for path in sorted((HERE / "cases").glob("*.scenario")):
        head = dict(line.split(" ", 1) for line in path.read_text().splitlines()
                    if line.split(" ", 1)[0] in ("rules", "needs"))
        found[path.stem] = (head.get("rules", "").split(), set(head.get("needs", "").split()))
    return found


def results(path):
    """Name -> whether every run of it passed."""
    passed = {}
    for verdict, name, _ in RESULT.findall(pathlib.Path(path).read_text()):
        passed[name] = passed.get(name, True) and verdict == "ok"
    return passed


def main(arguments):
    logs = dict(a.split("=", 1) for a in arguments)
    styles = list(logs) or list(ABILITIES)
    ran = {style: results(path) for style, path in logs.items()}
    units, sims, cases = unit_tests(), simulator(), scenarios()
    written = set(WRITTEN.findall((TESTS.parent / "core" / "RULES.md").read_text()))
    problems = [f"{rule} stands in only one of core/RULES.md and this program" for rule in sorted(written ^ set(RULES))]
    for style, passed in ran.items():
        problems += [f"{style}: {name} failed" for name, good in sorted(passed.items()) if not good]
        problems += [f"{style}: {name} did not run" for name, (_, needs) in cases.items()
                     if name not in passed and style in ABILITIES and needs <= ABILITIES[style]]
    named = {rule: f"a scenario: {name}" for name, (rules, _) in cases.items() for rule in rules}
    named.update({rule: names[0] for rule, names in units.items()})
    problems += [f"{where} names {rule}, which is no rule" for rule, where in named.items() if rule not in RULES]

    def scenario_count(rule, style):
        return sum(1 for name, (rules, needs) in cases.items() if rule in rules and
                   (ran[style].get(name, False) if ran else needs <= ABILITIES[style]))

    print(f"{'rule':<5}{'':<40}{'unit':>6}{'sim':>5}" + "".join(f"{s:>10}" for s in styles))
    holes = []
    for rule, what in RULES.items():
        counts = [scenario_count(rule, style) for style in styles]
        row = [len(units.get(rule, [])), len(sims.get(rule, []))]
        print(f"{rule:<5}{what:<40}{row[0] or '-':>6}{row[1] or '-':>5}" + "".join(f"{c or '-':>10}" for c in counts))
        if not sum(counts) and not sum(row):
            holes.append((rule, "no test", UNTESTED.get(rule)))
        elif not all(counts):
            where = [style for style, count in zip(styles, counts) if not count]
            lack = "no scenario" + (f" in style {', '.join(where)}" if any(counts) else "")
            holes.append((rule, lack, NO_SCENARIO.get(rule)))
    print(f"\n{len(cases)} scenarios; a number counts tests, for the simulator files whose checks name the rule")
    for rule, lack, reason in holes:
        print(f"hole: {rule} ({RULES[rule]}): {lack}: {reason or 'NO REASON'}")
    problems += [f"{rule} has {lack} and no reason" for rule, lack, reason in holes if not reason]
    for problem in problems:
        print(f"problem: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
