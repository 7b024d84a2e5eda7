"""Checks that other programs make: clang-format and shellcheck."""
import os
import subprocess
import tempfile


def run_on(command, paths, folder):
    """What `command` says of `paths`; [] where it is content."""
    if not paths:
        return []
    done = subprocess.run(command + sorted(paths), cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode == 0:
        return []
    return done.stdout.strip().split("\n") or [f"{command[0]} ended with {done.returncode}"]


def written_out(files, wanted, check):
    """Runs `check(folder, paths)` on copies of the wanted files, with the settings they come with."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for path, text in files.items():
            if wanted(path, text):
                paths.append(path)
            elif path != ".clang-format":
                continue
            target = os.path.join(folder, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as f:
                f.write(text)
        return check(folder, paths)


def clang_format(files):
    def check(folder, paths):
        lines = run_on(["clang-format", "--dry-run", "-Werror"], paths, folder)
        wrong = sorted({line.split(":")[0] for line in lines if ": error: " in line})
        # Anything else it ends with is a failure of its own, say an unknown setting.
        return [f"{path}: run clang-format -i on it" for path in wrong] or lines
    return written_out(files, lambda path, _: path.endswith((".c", ".h")), check)


def shellcheck(files):
    def wanted(path, text):
        return path.endswith(".sh") or text.startswith(("#!/bin/sh", "#!/bin/bash", "#!/usr/bin/env bash"))
    return written_out(files, wanted,
                       lambda folder, paths: run_on(["shellcheck", "-x", "-f", "gcc"], paths, folder))
