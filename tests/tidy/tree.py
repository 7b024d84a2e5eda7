"""The files of the project as the checks see them: a mapping from path to text.

A check is a function from such a mapping to a list of sentences, one a finding, so that it runs
on the project and, in its own test, on a small bad example."""
import os
import subprocess

CODE = (".c", ".h", ".cpp", ".hpp", ".py", ".sh", ".cmake", ".rs", ".rb", ".kt", ".java", ".i")


def project_root():
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def project():
    """Every file git tracks, as far as it is text and still there."""
    root = project_root()
    # A checkout may belong to somebody else than who tests it; reading its index is harmless.
    listing = subprocess.run(["git", "-c", f"safe.directory={root}", "-C", root, "ls-files", "-z"],
                             check=True, stdout=subprocess.PIPE).stdout
    files = {}
    for name in listing.decode().split("\0"):
        path = os.path.join(root, name)
        if not name or not os.path.isfile(path):
            continue
        with open(path, "rb") as f:
            content = f.read()
        if b"\0" not in content:
            files[name] = content.decode("utf-8", "replace")
    return files


def is_code(path):
    return path.endswith(CODE) or path == ".ci/run"
