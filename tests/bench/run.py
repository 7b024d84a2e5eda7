#!/usr/bin/env python3
"""Compares `ticketing bench` with what else there is, in one run and one report.

The peers do the same thing over loopback: tasks that acquire a key, wait, release it, wait. The raw
programs know no rule at all and exchange frames of the same sizes, so they are the ceiling of this
machine; Redis is spoken to by hand-written commands and by hiredis; the published Rust clients use
our server. Runs alternate because machines drift: a round runs every contender once, the first round
is thrown away, and only ratios within one round are compared. Each placement pins all servers to one
CPU and the clients to another or the same.

  tests/bench/run.py --peers              installs and builds all peers (as root or with sudo), then
                                          runs; without it those that are there are compared
  tests/bench/run.py                      tables on standard output
  tests/bench/run.py --json report.json   and a report for programs ("-": standard output)
  tests/bench/run.py --only threads       one workload: cycle, threads, sessions or latency
  tests/bench/run.py --require 0.6        exit status 1 where our client and server with split CPUs
                                          stay below that part of raw
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import peers
from servers import Failure, raw_server, redis_server, ticketing_server

NOTE = "run.py: "


def placements():
    cpus = sorted(os.sched_getaffinity(0))
    split = [("split CPUs", cpus[0], cpus[1])] if len(cpus) > 1 else []
    return split + [("one core", cpus[0], cpus[0])]


def measure(bench, contenders, pairs):
    """{contender: [a result a round]} of those that are there."""
    results = {name: [] for name in contenders}
    for i in range(pairs + 1):
        for name, run in contenders.items():
            result = run(bench)
            if result and i:
                results[name].append(result)
    return {name: rounds for name, rounds in results.items() if rounds}


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def ratios(results, field, name, against):
    return [mine[field] / other[field] for mine, other in zip(results[name], results[against])]


def summarize(title, field, results):
    base = next(iter(results))
    rows = {}
    for name, rounds in results.items():
        rows[name] = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        rows[name]["ratio"] = spread(ratios(results, field, name, base))
        rows[name]["rounds"] = rounds
    return {"workload": title, "compared": field, "contenders": rows}


def goals_of(placement, title, field, results):
    reached = []
    for workload, name, against, where, limit in peers.GOALS:
        if not title.startswith(workload + ":") or where not in (None, placement):
            continue
        if name not in results or against not in results:
            continue
        measured = spread(ratios(results, field, name, against))
        good = measured["median"] <= limit if field == "p50_ns" else measured["median"] >= limit
        reached.append({"workload": workload, "placement": placement, "of": name,
                        "against": against, "limit": limit, "measured": measured, "reached": good})
    return reached


def print_table(placement, summary, stream):
    compared = "p50" if summary["compared"] == "p50_ns" else "cycles/s"
    print(f"\n{summary['workload']}; {placement}", file=stream)
    print(f"  {'':<30}{'cycles/s':>11}{'p50':>12}{'p99':>13}{compared + ' of the first':>24}",
          file=stream)
    for name, row in summary["contenders"].items():
        ratio = row["ratio"]
        print(f"  {name:<30}{row['cycles_per_second']:>11,.0f}{row['p50_ns'] / 1e3:>9.1f} us"
              f"{row['p99_ns'] / 1e3:>10.1f} us{ratio['median']:>9.2f} "
              f"({ratio['least']:.2f}..{ratio['most']:.2f})", file=stream)


def print_goals(goals, stream):
    print("\ngoals", file=stream)
    for goal in goals:
        sign = "at most" if goal["workload"] == "latency" else "at least"
        print(f"  {'reached' if goal['reached'] else 'MISSED ':<8} {goal['measured']['median']:.2f}, "
              f"{sign} {goal['limit']:.2f}: {goal['workload']}, {goal['of']} / {goal['against']}; "
              f"{goal['placement']}", file=stream)


def read_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=peers.ROOT / "build",
                        help="build folder, release, with TICKETING_BUILD_TESTS=ON (build)")
    parser.add_argument("--peers", action="store_true",
                        help="install and build what we are compared with first")
    parser.add_argument("--pairs", type=int, default=7, help="rounds a placement (7; at least 5)")
    parser.add_argument("--cycles", type=int, default=40000,
                        help="cycles of the fast contenders; slow ones run a part of it (40000)")
    parser.add_argument("--only", choices=["cycle", "threads", "sessions", "latency"])
    parser.add_argument("--json", metavar="FILE", help="write a report there")
    parser.add_argument("--require", type=float, metavar="RATIO",
                        help="exit status 1 where split CPUs stay below it")
    args = parser.parse_args()
    args.build = args.build.resolve()
    if args.pairs < 5:
        parser.error("--pairs: fewer than 5 say nothing")
    if args.require and len(placements()) < 2:
        parser.error("--require needs two CPUs")
    return args


def check_build(build):
    programs = ["ticketing"] + [f"tests/bench/{name}" for name in
                                ("raw_server", "raw_client", "raw_threads", "redis_client")]
    for program in programs:
        if not os.access(build / program, os.X_OK):
            raise Failure(f"{build / program} is missing; name the build folder with --build, or let "
                          "--peers build everything")


def run_all(args, tables):
    report = []
    for placement, server_cpu, client_cpu in placements():
        with raw_server(args.build, server_cpu) as raw, redis_server(server_cpu) as redis, \
                ticketing_server(args.build, server_cpu) as ours:
            bench = peers.Bench(args.build, raw, redis, ours, client_cpu)
            for title, field, contenders in peers.workloads(args.cycles):
                if args.only and not title.startswith(args.only + ":"):
                    continue
                results = measure(bench, contenders, args.pairs)
                summary = summarize(title, field, results)
                print_table(placement, summary, tables)
                for name in contenders.keys() - results.keys():
                    print(f"  {name}: not there; --peers installs it", file=tables)
                tables.flush()
                summary["placement"] = placement
                summary["goals"] = goals_of(placement, title, field, results)
                report.append(summary)
    return report


def main():
    args = read_arguments()
    try:
        if args.peers:
            peers.install(args.build)
        check_build(args.build)
        tables = sys.stderr if args.json == "-" else sys.stdout
        report = run_all(args, tables)
    except (Failure, subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
        print(NOTE + str(failure), file=sys.stderr)
        return 2
    goals = [goal for summary in report for goal in summary["goals"]]
    print_goals(goals, tables)
    if args.json:
        text = json.dumps({"cycles": args.cycles, "pairs": args.pairs, "workloads": report},
                          indent=2) + "\n"
        if args.json == "-":
            sys.stdout.write(text)
        else:
            pathlib.Path(args.json).write_text(text, encoding="utf-8")
    if args.require:
        for summary in report:
            if summary["placement"] != "split CPUs" or not summary["workload"].startswith("cycle:"):
                continue
            ratio = summary["contenders"]["ours"]["ratio"]["median"]
            if ratio < args.require:
                print(f"{NOTE}{ratio:.2f} of raw on split CPUs, {args.require} required",
                      file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
