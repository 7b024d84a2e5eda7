#!/usr/bin/env python3
"""The published Python client (PyPI ticketing 0.3.0, module saro_ticketing) against our server.

Runs in an environment that holds the client (tests/run.sh makes it); TICKETING_PROGRAM is our
program. Only the client's public names are used."""
import asyncio
import logging
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "faults"))
from server import Server  # noqa: E402

from saro_ticketing import TicketBroker, TicketError  # noqa: E402

logging.getLogger("asyncio").setLevel(logging.ERROR)
READY = 20.0  # seconds within which a session must come up
TASKS, KEYS, ROUNDS = 60, 4, 12


class Client(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        # unittest turns on asyncio's debug mode, which only reports slow steps here.
        asyncio.get_running_loop().set_debug(False)

    async def open(self, server, **options):
        broker = TicketBroker([server.address], **options)
        self.assertTrue(await broker.wait_ready(READY), "no session came up")
        return broker

    async def count(self, broker, counters, key, rounds):
        """Read, let everybody else run, write: an update is lost wherever two hold the key."""
        for _ in range(rounds):
            ticket = await broker.acquire(f"counter-{key}", 60, 30)
            value, last_token = counters[key]
            await asyncio.sleep(0.0005)
            self.assertGreater(ticket.token, last_token, "a later grant has no greater token")
            counters[key] = (value + 1, ticket.token)
            self.assertTrue(await ticket.release(), "a held ticket was not current")

    async def test_contended_counters_lose_no_update(self):
        with Server() as server:
            brokers = [await self.open(server) for _ in range(3)]
            counters = [(0, 0)] * KEYS
            await asyncio.gather(*(self.count(brokers[task % len(brokers)], counters, task % KEYS, ROUNDS)
                                   for task in range(TASKS)))
            self.assertEqual([value for value, _ in counters], [TASKS * ROUNDS // KEYS] * KEYS)

    async def test_thousands_of_acquires_at_once_are_all_served(self):
        # The shape of the client's own benchmark: every acquire is sent before the first ends.
        with Server() as server:
            broker = await self.open(server)
            counters = [(0, 0)] * KEYS
            await asyncio.gather(*(self.count_plain(broker, counters, n % KEYS) for n in range(4000)))
            self.assertEqual([value for value, _ in counters], [1000] * KEYS)

    async def count_plain(self, broker, counters, key):
        async with await broker.acquire(f"plain-{key}", 120, 30) as ticket:
            value, last_token = counters[key]
            self.assertGreater(ticket.token, last_token)
            counters[key] = (value + 1, ticket.token)

    async def test_wait_ends_in_their_timeout(self):
        with Server() as server:
            broker, other = await self.open(server), await self.open(server)
            held = await broker.acquire("busy", 5, 60)
            for waiter in (broker, other):
                with self.assertRaises(TicketError) as caught:
                    await waiter.acquire("busy", 1, 60)
                self.assertEqual(caught.exception.kind, "timeout")
            # The wait was taken out of the queue: the key is free once it is released.
            self.assertTrue(await held.release())
            self.assertTrue(await (await other.acquire("busy", 5, 60)).release())

    async def test_wait_zero_is_one_try(self):
        with Server() as server:
            broker = await self.open(server)
            held = await broker.acquire("zero", 0, 60)
            with self.assertRaises(TicketError) as caught:
                await asyncio.wait_for(broker.acquire("zero", 0, 60), 20)
            self.assertEqual(caught.exception.kind, "timeout")
            self.assertTrue(await held.release())
            self.assertTrue(await (await broker.acquire("zero", 0, 60)).release())

    async def test_release_of_an_expired_ticket_is_not_current(self):
        with Server() as server:
            broker = await self.open(server)
            expired = await broker.acquire("short", 5, 1)
            follower = await broker.acquire("short", 30, 60)  # granted by the end of the lease
            self.assertGreater(follower.token, expired.token)
            self.assertFalse(await expired.release())
            # The follower was not harmed by the late release.
            with self.assertRaises(TicketError):
                await broker.acquire("short", 1, 60)
            self.assertTrue(await follower.release())
            self.assertFalse(await follower.release())

    async def test_client_goes_on_after_a_restart_on_the_same_port(self):
        with Server() as first:
            address = first.address
            broker = await self.open(first)
            held = await broker.acquire("restart", 5, 60)
            waiting = asyncio.create_task(broker.acquire("restart", 60, 60))
            await asyncio.sleep(0.2)  # let the wait be sent; sent or not, the outcome is the same
            first.process.kill()
            first.process.wait()
        with Server(listen=address) as second:
            self.assertEqual(second.address, address)
            # The wait is sent again by their retry, and memory durability knows no holder.
            follower = await asyncio.wait_for(waiting, 60)
            self.assertGreater(follower.token, held.token, "tokens went back over a restart")
            self.assertFalse(await held.release(), "the lost ticket was current")
            self.assertTrue(await follower.release())

    async def test_dropped_ticket_comes_back_by_their_background_release(self):
        with Server() as server:
            broker = await self.open(server)
            (await broker.acquire("dropped", 5, 120)).close()
            self.assertTrue(await (await broker.acquire("dropped", 30, 60)).release())

    async def test_largest_and_odd_keys(self):
        with Server() as server:
            broker = await self.open(server)
            for key in ("k", "k" * 128, "키-잠금", "é" * 64, "tab\tquote\"zero\0"):
                ticket = await broker.acquire(key, 5, 60)
                self.assertTrue(await ticket.release(), repr(key))

    async def test_right_token_is_served_and_wrong_one_ends_in_their_timeout(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokens")
            with open(path, "w", encoding="utf-8") as f:
                f.write("a-long-enough-secret\n")
            os.chmod(path, 0o600)
            with Server("--token-file", path) as server:
                right = await self.open(server, token="a-long-enough-secret")
                lines = []
                wrong = TicketBroker([server.address], token="another-secret", logger=lines.append)
                with self.assertRaises(TicketError) as caught:
                    await wrong.acquire("guarded", 3, 60)
                self.assertEqual(caught.exception.kind, "timeout")
                await asyncio.wait_for(self.logged(lines, "auth_failed"), READY)
                # What the refused client sent was never granted.
                self.assertTrue(await (await right.acquire("guarded", 0, 60)).release())

    async def logged(self, lines, word):
        while not any(word in line for line in lines):
            await asyncio.sleep(0.02)

    def test_blocking_form(self):
        with Server() as server:
            broker = TicketBroker.connect(server.address)
            self.assertTrue(broker.wait_ready_sync(READY))
            with broker.acquire_sync("blocking", 5, 60) as ticket:
                self.assertGreater(ticket.token, 0)
            self.assertTrue(broker.acquire_sync("blocking", 5, 60).release_sync())


if __name__ == "__main__":
    unittest.main()
