"""What no file may contain, and how long a file may be."""
import re

from tree import is_code

LONGEST = 600  # lines; a longer file holds more than one concept

# Pieces are joined here so that this file does not contain what it looks for.
MARKS = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "X" "XX", "HA" "CK")) + r")\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:" + "|".join(("wo" "rk", "ho" "me", "ro" "ot")) + r")/|/tmp/bash_" r"jobs|\.\./sha" r"red\b")
HOSTS = re.compile("|".join(re.escape(".".join(host)) for host in (
    ("crates", "io"), ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"),
    ("maven", "org"), ("maven", "apache", "org"), ("debian", "org"), ("golang", "org"),
    ("rubygems", "org"), ("ubuntu", "com"))))


def marks(files):
    return each_line(files, MARKS, "is a promise, not a program: do it or drop it")


def machine_paths(files):
    return each_line(files, MACHINE_PATHS, "is a path of one machine")


def registry_hosts(files):
    return each_line(files, HOSTS, "names a registry; its client knows where it is")


def each_line(files, pattern, what):
    found = []
    for path, text in sorted(files.items()):
        for number, line in enumerate(text.split("\n"), 1):
            match = pattern.search(line)
            if match:
                found.append(f"{path}:{number}: {match.group()} {what}")
    return found


def length(files):
    return [f"{path}: {text.count(chr(10))} lines, more than {LONGEST}"
            for path, text in sorted(files.items()) if is_code(path) and text.count("\n") > LONGEST]


def white_space(files):
    found = []
    for path, text in sorted(files.items()):
        if not is_code(path) and not path.endswith((".md", ".txt")):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                found.append(f"{path}:{number}: white space at the end of the line")
        if text and not text.endswith("\n"):
            found.append(f"{path}: does not end with a newline")
    return found
