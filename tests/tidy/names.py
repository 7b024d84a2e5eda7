"""Names: of files, of what headers declare, of include guards, and the fixed top level."""
import re

TOP_LEVEL = {"CMakeLists.txt", "README.md", "LICENSE", "abi", "bindings", "core", "packaging", "tests"}
SAYS_NOTHING = {"util", "utils", "misc", "common", "manager", "helper", "helpers", "placeholder", "stuff"}
MUST_EXIST = ("README.md", "LICENSE", ".ci/run", "tests/run.sh", "packaging/quickstart.sh",
              "core/ARCHITECTURE.md", "abi/STABILITY.md", "bindings/README.md", "abi/symbols.txt")


def top_level(files):
    return [f"{name}: does not belong at the top level"
            for name in sorted({path.split("/")[0] for path in files})
            if name not in TOP_LEVEL and not name.startswith(".")]


def must_exist(files):
    return [f"{path}: is missing" for path in MUST_EXIST if path not in files]


def concepts(files):
    found = []
    for path in sorted(files):
        parts = path.split("/")
        parts[-1] = parts[-1].split(".")[0]
        for part in parts:
            for word in re.split(r"[_-]", part.lower()):
                if word in SAYS_NOTHING:
                    found.append(f"{path}: '{word}' names no concept")
    return found


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def guards(files):
    found = []
    for path, text in sorted(files.items()):
        if not path.endswith(".h"):
            continue
        if path == "abi/include/ticketing.h":
            want = "TICKETING_H"
        elif path.startswith("core/"):
            want = "TKT_" + re.sub(r"\W", "_", path[len("core/"):-2]).upper() + "_H"
        elif path.startswith("abi/src/"):
            want = "TKT_ABI_" + re.sub(r"\W", "_", path[len("abi/src/"):-2]).upper() + "_H"
        else:
            continue
        start = re.match(r"\s*#ifndef (\w+)\s*\n\s*#define (\w+)\s", without_comments(text))
        if not start or start.group(1) != want or start.group(2) != want:
            found.append(f"{path}: begins with no include guard {want}")
    return found


# A declaration that starts a line: words, then the declared name before a parenthesis.
FUNCTION = re.compile(r"^(?!typedef\b|#|return\b|else\b)(?:[A-Za-z_][\w ]*?[ *]+)(\w+)\(", re.M)
TYPE = re.compile(r"^(?:typedef )?(?:struct|enum|union) (\w+)\b[^;(]*\{", re.M)
VARIABLE = re.compile(r"^extern (?!\")[^;(]*?(\w+)(?:\[[^\]]*\])?;", re.M)
MACRO = re.compile(r"^[ \t]*#[ \t]*define (\w+)(\(?)", re.M)


def prefixes(files):
    """What a header declares says by its name whether it is ABI (ticketing_) or inside (tkt_)."""
    found = []
    for path, text in sorted(files.items()):
        if not path.endswith(".h") or not path.startswith(("core/", "abi/")):
            continue
        public = path.startswith("abi/include/")
        lower, upper = ("ticketing_", "TICKETING_") if public else ("tkt_", "TKT_")
        code = without_comments(text)
        names = [(n, lower) for pattern in (FUNCTION, TYPE, VARIABLE) for n in pattern.findall(code)]
        # A macro with arguments may look like the function it stands for.
        names += [(n, lower if arguments and n.islower() else upper) for n, arguments in MACRO.findall(code)]
        for name, prefix in names:
            # The thin layer below the header defines the public names, and _Static_assert declares none.
            if path.startswith("abi/src/") and name.startswith(("ticketing_", "TICKETING_")):
                continue
            if not name.startswith(prefix) and name not in ("_Static_assert", "__attribute__"):
                found.append(f"{path}: {name} does not begin with {prefix}")
    return found


def public_comments(files):
    """Each public function has a comment above it, its own or one of a group without blank lines."""
    path = "abi/include/ticketing.h"
    found = []
    documented = False
    in_comment = in_declaration = False
    for line in files.get(path, "").split("\n"):
        stripped = line.strip()
        if in_comment:
            if "*/" in stripped:
                in_comment = False
                documented = stripped.endswith("*/") and not in_declaration
        elif in_declaration:
            in_declaration = not stripped.endswith(";")
        elif stripped.startswith("/*"):
            # A line that only draws a heading documents nothing.
            heading = re.fullmatch(r"/\* -{3} .* -{3,} \*/", stripped)
            in_comment = "*/" not in stripped
            documented = not heading and not in_comment
        elif not stripped:
            documented = False
        elif stripped.startswith("TICKETING_API "):
            name = re.search(r"(\w+)\(", stripped)
            if not documented:
                found.append(f"{path}: {name.group(1) if name else stripped} has no comment")
            in_declaration = not stripped.split("/*")[0].strip().endswith(";")
    return found
