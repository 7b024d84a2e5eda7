#!/usr/bin/env python3
"""Compares `ticketing bench cycle` with a raw epoll exchange of equal frames.

Both do the same thing over two loopback connections: 64 tasks on 32 keys acquire, wait, release,
wait. The raw programs know no rule at all, so they are the ceiling of this machine. Runs alternate,
raw then ours, because machines drift; only ratios within one pair are worth comparing.

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


def run_raw(build, args, server_cpu, client_cpu):
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
        client = subprocess.run(
            [build / "tests/bench/raw_client", port, str(SESSIONS)]
            + [str(n) for n in (args.tasks, args.keys, args.cycles)],
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
            preexec_fn=pinned(client_cpu),
        )
    finally:
        server.stdin.close()  # that ends it
        server.wait()
        server.stdout.close()
    if client.returncode:
        fail(f"raw_client ended with {client.returncode}: {client.stderr.strip()}")
    return json.loads(client.stdout)


def run_ours(build, args, server_cpu, client_cpu):
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
    """`args.pairs` pairs, and one before them that is thrown away."""
    pairs = []
    for i in range(args.pairs + 1):
        pair = {
            "raw": run_raw(build, args, server_cpu, client_cpu),
            "ours": run_ours(build, args, server_cpu, client_cpu),
        }
        pair["ratio"] = pair["ours"]["cycles_per_second"] / pair["raw"]["cycles_per_second"]
        if i:
            pairs.append(pair)
    return pairs


def median(pairs, side, field):
    return statistics.median(pair[side][field] for pair in pairs)


def summary(name, cpus, pairs):
    ratios = [pair["ratio"] for pair in pairs]
    return {
        "placement": name,
        "server_cpu": cpus[0],
        "client_cpu": cpus[1],
        "raw_cycles_per_second": median(pairs, "raw", "cycles_per_second"),
        "our_cycles_per_second": median(pairs, "ours", "cycles_per_second"),
        "raw_p50_ns": median(pairs, "raw", "p50_ns"),
        "our_p50_ns": median(pairs, "ours", "p50_ns"),
        "ratio_median": statistics.median(ratios),
        "ratio_least": min(ratios),
        "ratio_most": max(ratios),
        "pairs": pairs,
    }


def print_table(summaries, stream):
    print(f"{'placement':<12}{'raw/s':>12}{'ours/s':>12}{'ratio':>8}{'(least..most)':>16}"
          f"{'raw p50':>12}{'our p50':>12}", file=stream)
    for s in summaries:
        spread = f"({s['ratio_least']:.2f}..{s['ratio_most']:.2f})"
        print(f"{s['placement']:<12}{s['raw_cycles_per_second']:>12,.0f}"
              f"{s['our_cycles_per_second']:>12,.0f}{s['ratio_median']:>8.2f}{spread:>16}"
              f"{s['raw_p50_ns'] / 1e3:>9.1f} us{s['our_p50_ns'] / 1e3:>9.1f} us", file=stream)


def read_arguments():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=root / "build",
                        help="build folder, release, with TICKETING_BUILD_TESTS=ON (build)")
    parser.add_argument("--pairs", type=int, default=7, help="pairs a placement (7; at least 5)")
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
    if args.require and summaries[0]["ratio_median"] < args.require:
        print(f"run.py: {summaries[0]['ratio_median']:.2f} of raw on split CPUs, "
              f"{args.require} required", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
