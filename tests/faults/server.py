"""Starts the real server for a test and takes it down again."""
import json
import os
import subprocess
import tempfile


def program():
    path = os.environ.get("TICKETING_PROGRAM")
    if not path:
        raise SystemExit("TICKETING_PROGRAM is not set: give the path of the built `ticketing` program")
    return path


class Server:
    """`with Server() as s: s.address` — a private server on a free port, memory durability."""

    def __init__(self, *options, listen="127.0.0.1:0", env=None):
        self.options = options
        self.listen = listen
        self.env = env

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ticketing-test-")
        self.log = open(os.path.join(self.folder.name, "log"), "w+")
        read_end, write_end = os.pipe()
        try:
            self.process = subprocess.Popen(
                [program(), "serve", "--listen", self.listen, "--durability", "memory",
                 "--data", os.path.join(self.folder.name, "data"),
                 "--ready-fd", str(write_end), *self.options],
                pass_fds=[write_end], stderr=self.log, stdin=subprocess.DEVNULL, env=self.env)
        finally:
            os.close(write_end)
        with os.fdopen(read_end) as pipe:
            line = pipe.readline()
        if not line:
            self.process.wait()
            raise RuntimeError(f"the server did not start: {self.read_log()}")
        self.ready = json.loads(line)
        self.address = self.ready["listeners"][0]["address"]
        return self

    def read_log(self):
        self.log.flush()
        with open(self.log.name) as f:
            return f.read()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(timeout=30)

    def __exit__(self, *exc):
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.log.close()
            self.folder.cleanup()
