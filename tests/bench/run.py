#!/usr/bin/env python3
"""Compares `ticketing bench cycle` with a raw epoll exchange of equal frames.

Both do the same thing over two loopback connections: 64 tasks on 32 keys acquire, wait, release,
wait. The raw programs know no rule at all, so they are the ceiling of this machine; a third run, raw
client against our server, tells the costs of server and client apart. Runs alternate because
machines drift; only ratios within one round are worth comparing.

  tests/bench/run.py                      table on standard output
  tests/bench/run.py --json report.json   and a report for programs ("-": standard output)
  tests/bench/run.py --require 0.6        exit status 1 where split CPUs stay below that ratio
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SESSIONS = 2  # what the library holds with one address
RUN_LIMIT_S = 300


def fail(sentence):
    print(f"run.py: {sentence}", file=sys.stderr)
    sys.exit(2)


def pinned(cpu):
    """A preexec function that keeps the child on one CPU, None for any."""
    if cpu is None:
        return None
    return lambda: os.sched_setaffinity(0, {cpu})


def raw_client(build, args, dialect, port, cpu):
    client = subprocess.run(
        [build / "tests/bench/raw_client", dialect, port, str(SESSIONS)]
        + [str(n) for n in (args.tasks, args.keys, args.cycles)],
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        preexec_fn=pinned(cpu),
    )
    if client.returncode:
        fail(f"raw_client ended with {client.returncode}: {client.stderr.strip()}")
    return json.loads(client.stdout)


def run_raw(build, args, server_cpu, client_cpu):
    """Raw client, raw server: the ceiling."""
    server = subprocess.Popen(
        [build / "tests/bench/raw_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=pinned(server_cpu),
    )
    try:
        port = server.stdout.readline().strip()
        if not port:
            fail("raw_server did not start")
        return raw_client(build, args, "plain", port, client_cpu)
    finally:
        server.stdin.close()  # that ends it
        server.wait()
        server.stdout.close()


def run_server(build, args, server_cpu, client_cpu):
    """Raw client that speaks the line protocol, our server: what the server costs."""
    with tempfile.TemporaryDirectory(prefix="ticketing-bench-") as folder:
        with open(pathlib.Path(folder) / "server.log", "w", encoding="utf-8") as log:
            server = subprocess.Popen(
                [build / "ticketing", "serve", "--listen", "127.0.0.1:0", "--durability", "memory"]
                + ["--ready-fd", "1", "--data", pathlib.Path(folder) / "data"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=pinned(server_cpu),
            )
        try:
            line = server.stdout.readline()
            if not line:
                fail("ticketing serve did not start: "
                     + (pathlib.Path(folder) / "server.log").read_text(encoding="utf-8"))
            address = json.loads(line)["listeners"][0]["address"]
            return raw_client(build, args, "wire2", address.rpartition(":")[2], client_cpu)
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()


def run_ours(build, args, server_cpu, client_cpu):
    """Our client, our server."""
    done = subprocess.run(
        [build / "ticketing", "bench", "cycle", "--json", "--io", args.io]
        + ["--tasks", str(args.tasks), "--keys", str(args.keys), "--cycles", str(args.cycles)]
        + ["--pin", f"{server_cpu},{client_cpu}"],
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
    )
    if done.returncode:
        fail(f"ticketing bench ended with {done.returncode}: {done.stderr.strip()}{done.stdout.strip()}")
    result = json.loads(done.stdout)["results"][0]
    return {
        "cycles": result["cycles"],
        "seconds": result["seconds"],
        "cycles_per_second": result["cycles_per_second"],
        "p50_ns": result["cycle_ns"]["p50"],
        "p99_ns": result["cycle_ns"]["p99"],
        "max_ns": result["cycle_ns"]["max"],
    }


def measure(build, args, server_cpu, client_cpu):
    """`args.pairs` rounds of all three, and one before them that is thrown away."""
    rounds = []
    for i in range(args.pairs + 1):
        one = {
            "raw": run_raw(build, args, server_cpu, client_cpu),
            "server": run_server(build, args, server_cpu, client_cpu),
            "ours": run_ours(build, args, server_cpu, client_cpu),
        }
        for side in ("server", "ours"):
            one[f"{side}_ratio"] = one[side]["cycles_per_second"] / one["raw"]["cycles_per_second"]
        if i:
            rounds.append(one)
    return rounds


def median(rounds, side, field):
    return statistics.median(one[side][field] for one in rounds)


def summary(name, cpus, rounds):
    result = {"placement": name, "server_cpu": cpus[0], "client_cpu": cpus[1]}
    for side in ("raw", "server", "ours"):
        result[side] = {field: median(rounds, side, field)
                        for field in ("cycles_per_second", "p50_ns", "p99_ns")}
    for side in ("server", "ours"):
        ratios = [one[f"{side}_ratio"] for one in rounds]
        result[side]["ratio"] = {"median": statistics.median(ratios),
                                 "least": min(ratios), "most": max(ratios)}
    result["rounds"] = rounds
    return result


NAMES = {
    "raw": "raw client, raw server",
    "server": "raw client, our server",
    "ours": "our client, our server",
}


def print_table(summaries, stream):
    for s in summaries:
        print(f"{s['placement']:<26}{'cycles/s':>12}{'of raw':>9}{'(least..most)':>16}"
              f"{'p50':>12}{'p99':>12}", file=stream)
        for side, name in NAMES.items():
            row = s[side]
            ratio = row.get("ratio", {"median": 1.0, "least": 1.0, "most": 1.0})
            spread = f"({ratio['least']:.2f}..{ratio['most']:.2f})" if side != "raw" else ""
            print(f"  {name:<24}{row['cycles_per_second']:>12,.0f}{ratio['median']:>9.2f}"
                  f"{spread:>16}{row['p50_ns'] / 1e3:>9.1f} us{row['p99_ns'] / 1e3:>9.1f} us",
                  file=stream)


def read_arguments():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=root / "build",
                        help="build folder, release, with TICKETING_BUILD_TESTS=ON (build)")
    parser.add_argument("--pairs", type=int, default=7, help="rounds a placement (7; at least 5)")
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--keys", type=int, default=32)
    parser.add_argument("--cycles", type=int, default=40000)
    parser.add_argument("--io", choices=["caller", "thread"], default="caller")
    parser.add_argument("--json", metavar="FILE", help="write a report there")
    parser.add_argument("--require", type=float, metavar="RATIO",
                        help="exit status 1 where split CPUs stay below it")
    args = parser.parse_args()
    if args.pairs < 5:
        parser.error("--pairs: fewer than 5 say nothing")
    for program in ("ticketing", "tests/bench/raw_server", "tests/bench/raw_client"):
        if not os.access(args.build / program, os.X_OK):
            fail(f"{args.build / program} is missing; build with\n"
                 f"  cmake -S {root} -B {args.build} -DTICKETING_BUILD_TESTS=ON && "
                 f"cmake --build {args.build}\nor name the folder with --build")
    return args


def main():
    args = read_arguments()
    cpus = sorted(os.sched_getaffinity(0))
    placements = [("one core", (cpus[0], cpus[0]))]
    if len(cpus) > 1:
        placements.insert(0, ("split CPUs", (cpus[0], cpus[1])))
    else:
        print("run.py: one CPU only, so no split placement", file=sys.stderr)
        if args.require:
            fail("--require needs two CPUs")
    summaries = [summary(name, where, measure(args.build, args, *where))
                 for name, where in placements]
    to_stdout = args.json == "-"
    print_table(summaries, sys.stderr if to_stdout else sys.stdout)
    if args.json:
        report = {"tasks": args.tasks, "keys": args.keys, "cycles": args.cycles, "io": args.io,
                  "sessions": SESSIONS, "placements": summaries}
        text = json.dumps(report, indent=2) + "\n"
        if to_stdout:
            sys.stdout.write(text)
        else:
            pathlib.Path(args.json).write_text(text, encoding="utf-8")
    if args.require and summaries[0]["ours"]["ratio"]["median"] < args.require:
        print(f"run.py: {summaries[0]['ours']['ratio']['median']:.2f} of raw on split CPUs, "
              f"{args.require} required", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
