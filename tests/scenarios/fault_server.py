#!/usr/bin/env python3
"""The scripted fault server of the scenarios: one process, many addresses, every misbehaviour.

It is a puppet on two pipes. A runner writes one command a line to its standard input, the words of a
`server` line of a scenario; each is answered by exactly one line, `ok ...` or `fail REASON`, as
soon as it is carried out or has come true. Without commands it only does what its policies say: greet
each connection, check the proof, confirm it. What clients ask is decoded and kept until a command
claims it; `finish` fails where anything is left that no command claimed, and reports as JSON what
was seen. README.md beside this file describes the commands."""
import os
import selectors
import sys
import time

from fault_commands import Commands
from fault_connection import Failed

PATIENCE = 20.0  # seconds a command waits for what it is about


class Server(Commands):
    def __init__(self):
        super().__init__()
        self.selector = selectors.DefaultSelector()
        self.commands, self.typed = [], b""
        self.waiting = None  # (words, deadline)
        os.set_blocking(0, False)
        self.selector.register(0, selectors.EVENT_READ, self)

    # --- plumbing

    def watch(self, connection):
        if connection.closed:
            return
        events = 0 if connection.at_eof or connection.paused else selectors.EVENT_READ
        events |= selectors.EVENT_WRITE if connection.outbox else 0
        known = connection.sock in self.selector.get_map()
        if events and known:
            self.selector.modify(connection.sock, events, connection)
        elif events:
            self.selector.register(connection.sock, events, connection)
        elif known:
            self.selector.unregister(connection.sock)

    def forget(self, connection):
        if connection.sock in self.selector.get_map():
            self.selector.unregister(connection.sock)

    def readable(self):
        data = os.read(0, 65536)
        if not data:
            sys.exit(0)  # the runner went away
        *lines, self.typed = (self.typed + data).split(b"\n")
        self.commands += [line.decode() for line in lines]

    def run(self):
        while True:
            self.next_command()
            left = max(0.0, self.waiting[1] - time.monotonic()) if self.waiting else None
            for key, events in self.selector.select(left):
                who = key.data
                if events & selectors.EVENT_READ and not getattr(who, "closed", False):
                    who.readable()
                if events & selectors.EVENT_WRITE and not who.closed:
                    who.flush()

    def next_command(self):
        while True:
            if not self.waiting:
                if not self.commands:
                    return
                command = self.commands.pop(0)
                words = command.split()
                self.waiting = (words, time.monotonic() + PATIENCE)
            words, deadline = self.waiting
            try:
                answer = self.attempt(words)
                if answer is None:
                    if time.monotonic() < deadline:
                        return
                    raise Failed(f"did not happen within {PATIENCE:g} s; {self.outstanding()}")
                self.answer("ok " + answer)
            except Failed as failure:
                self.answer(f"fail {failure}")
            except (KeyError, ValueError, IndexError) as mistake:
                self.answer(f"fail bad command: {type(mistake).__name__} {mistake}")
            self.waiting = None
            if words[:1] == ["finish"]:
                sys.exit(0)

    def answer(self, text):
        try:
            sys.stdout.write(text.strip().replace("\n", " ") + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            os._exit(0)  # the runner went away


if __name__ == "__main__":
    Server().run()
