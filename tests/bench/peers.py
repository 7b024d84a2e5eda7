"""Who is compared, in which workload, and what the product has set itself to reach."""

import pathlib
import shutil
import subprocess

from servers import Failure, run_client

SESSIONS = 2  # what the library holds with one address
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class Bench:
    """What a contender needs to run: where programs are, the servers of a placement, the client's
    CPU."""

    def __init__(self, build, raw, redis, ours, cpu):
        self.programs = build / "tests/bench"
        self.ticketing = build / "ticketing"
        self.rust = build / "bench-rust/release/ticketing_bench_peer"
        self.raw = raw
        self.redis = redis
        self.ours = ours
        self.cpu = cpu

    def run(self, *command):
        return run_client(command, self.cpu)


def raw(sessions, tasks, keys, cycles):
    return lambda b: b.run(b.programs / "raw_client", "plain", b.raw, sessions, tasks, keys, cycles)


def raw_on_ours(sessions, tasks, keys, cycles):
    return lambda b: b.run(b.programs / "raw_client", "wire2", b.ours.port(2), sessions, tasks, keys,
                           cycles)


def raw_threads(tasks, keys, cycles):
    return lambda b: b.run(b.programs / "raw_threads", b.raw, SESSIONS, tasks, keys, cycles)


def redis(sessions, tasks, keys, cycles):
    return lambda b: b.redis and b.run(b.programs / "redis_client", b.redis, sessions, tasks, keys,
                                       cycles)


def hiredis(tasks, keys, cycles):
    def run(b):
        program = b.programs / "hiredis_threads"
        return b.redis and program.exists() and b.run(program, b.redis, tasks, keys, cycles)
    return run


def rust(wire, tasks, keys, cycles):
    def run(b):
        word = {2: "line", 3: "framed"}[wire]
        return b.rust.exists() and b.run(b.rust, word, b.ours.address(wire), tasks, keys, cycles)
    return run


def ours(workload, wire, tls=False, io="caller", tasks=None, keys=None, cycles=None):
    def run(b):
        command = [b.ticketing, "bench", workload, "--json", "--io", io, "--cycles", cycles,
                   *b.ours.options(wire, tls)]
        if tasks:
            command += ["--tasks", tasks, "--keys", keys]
        result = b.run(*command)["results"][0]
        return {"cycles": result["cycles"], "seconds": result["seconds"],
                "cycles_per_second": result["cycles_per_second"],
                "user_us": result["user_seconds"] * 1e6 / result["cycles"],
                "system_us": result["system_seconds"] * 1e6 / result["cycles"],
                "p50_ns": result["cycle_ns"]["p50"], "p99_ns": result["cycle_ns"]["p99"],
                "max_ns": result["cycle_ns"]["max"]}
    return run


def workloads(cycles):
    """[(title, field that is compared, {contender: how it runs})]; the first contender of each is
    what the others are compared with. One that is not there gives something false."""
    few, half = max(cycles // 4, 1000), max(cycles // 2, 1000)
    tasks, keys = 64, 32
    return [
        ("cycle: 64 tasks, 32 keys, event loop", "cycles_per_second", {
            "raw": raw(SESSIONS, tasks, keys, cycles),
            "raw client, our server": raw_on_ours(SESSIONS, tasks, keys, cycles),
            "ours": ours("cycle", 2, False, "caller", tasks, keys, cycles),
            "ours, wire 3": ours("cycle", 3, False, "caller", tasks, keys, cycles),
            "ours, TLS": ours("cycle", 2, True, "caller", tasks, keys, cycles),
            "ours, wire 3, TLS": ours("cycle", 3, True, "caller", tasks, keys, cycles),
            "ours, I/O thread and queue": ours("cycle", 2, False, "queue", tasks, keys, cycles),
            "Redis": redis(SESSIONS, tasks, keys, cycles),
            "Redis, free keys": redis(SESSIONS, tasks, tasks, cycles),
            "Rust crate 0.3.0, our server": rust(2, tasks, keys, few),
            "Rust crate 0.4.0, our server": rust(3, tasks, keys, few),
        }),
        ("threads: 64 blocking threads, 32 keys", "cycles_per_second", {
            "raw, combining writer": raw_threads(tasks, keys, half),
            "ours": ours("cycle", 2, False, "thread", tasks, keys, half),
            "ours, wire 3": ours("cycle", 3, False, "thread", tasks, keys, half),
            "ours, TLS": ours("cycle", 2, True, "thread", tasks, keys, half),
            "hiredis": hiredis(tasks, keys, few // 2),
            "hiredis, free keys": hiredis(tasks, tasks, few // 2),
        }),
        ("sessions: 64 with one task each, 32 keys", "cycles_per_second", {
            "raw": raw(tasks, tasks, keys, few),
            "raw client, our server": raw_on_ours(tasks, tasks, keys, few),
            "Redis": redis(tasks, tasks, keys, few),
            "Redis, free keys": redis(tasks, tasks, tasks, few),
        }),
        ("latency: one task, one key", "p50_ns", {
            "raw": raw(1, 1, 1, few // 2),
            "ours": ours("latency", 2, cycles=few // 2),
            "ours, wire 3": ours("latency", 3, cycles=few // 2),
            "ours, TLS": ours("latency", 2, True, cycles=few // 2),
            "ours, I/O thread": ours("latency", 2, False, "thread", cycles=few // 2),
            "Redis": redis(1, 1, 1, few // 2),
            "Rust crate 0.4.0, our server": rust(3, 1, 1, few // 2),
        }),
    ]


# (workload, contender, against, placement or None for all, least ratio; of latency: most)
GOALS = [
    ("cycle", "ours", "raw", "split CPUs", 0.70),
    ("cycle", "ours", "raw", "one core", 0.50),
    ("cycle", "ours, wire 3", "raw", "one core", 0.50),
    ("cycle", "ours", "Redis", "split CPUs", 2.7),
    ("cycle", "ours", "Redis, free keys", "split CPUs", 1.9),
    ("cycle", "ours", "Redis", "one core", 2.5),
    ("cycle", "ours", "Rust crate 0.3.0, our server", None, 2.0),
    ("cycle", "ours, wire 3", "Rust crate 0.4.0, our server", None, 2.0),
    ("cycle", "ours, TLS", "ours", None, 0.6),
    ("threads", "ours", "raw, combining writer", None, 0.85),
    ("threads", "ours", "hiredis", None, 1.7),
    ("sessions", "raw client, our server", "raw", None, 0.92),
    ("sessions", "raw client, our server", "Redis", None, 1.3),
    ("latency", "ours", "raw", "one core", 1.12),
    ("latency", "ours", "Redis", "one core", 1.0),
]


def build_rust(build):
    """Builds the published Rust clients from the registry, in the build folder: cargo writes beside
    its sources."""
    if not shutil.which("cargo"):
        raise Failure("cargo is missing, which builds the published Rust clients: install Rust 1.90 "
                      "or newer, or leave --peers away")
    project = build / "bench-rust-source"
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(HERE / "rust", project)
    subprocess.run(["cargo", "build", "--release", "--quiet", "--manifest-path",
                    project / "Cargo.toml", "--target-dir", build / "bench-rust"], check=True)


def install(build):
    """Everything that is compared with: packages, then what is built of them."""
    subprocess.run(["bash", "-c", '. "$1" && ticketing_install build bench', "bash",
                    ROOT / "packaging/dependencies.sh"], check=True)
    subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DTICKETING_BUILD_TESTS=ON"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", build, "--target", "ticketing_program", "raw_server",
                    "raw_client", "raw_threads", "redis_client", "hiredis_threads"],
                   check=True, stdout=subprocess.DEVNULL)
    build_rust(build)
