#!/usr/bin/env bash
# Runs the tests, from nothing: installs what they need, builds, runs suite after suite.
#
#   bash tests/run.sh                      every suite, the short way
#   bash tests/run.sh --suite unit         one suite; may be repeated
#   bash tests/run.sh --all                more seeds, longer faults, real fuzzing, and every
#                                          sanitizer with every suite
#   bash tests/run.sh --list               the suites
#   bash tests/run.sh --help               this text
#
# Builds are kept in .build/, one folder a configuration, shared by the suites; logs in .build/logs.
# A failing suite does not stop the others. The last line is "N passed, N failed, N skipped", test
# cases of all suites together; the exit status is 0 where nothing failed, 1 where something did,
# 64 for a wrong option. A suite whose tools are not to be had is skipped by name; with CI=true that
# is a failure. TICKETING_SKIP_INSTALL=1 installs no package and goes on with what is there.
set -u -o pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit 1
cd "$root" || exit 1
# shellcheck source=packaging/dependencies.sh
. packaging/dependencies.sh

readonly suites=(tidy rules unit abi sim scenarios fuzz cli faults interop bench-smoke clang sanitize-address sanitize-thread)
declare -A about=(
  [tidy]='one-way includes, names, format, and the rules for every file'
  [rules]='every rule of core/RULES.md is proven somewhere: rule x test x style, kept in .build/rules.txt'
  [unit]='each layer by itself, tests named after the rules they prove'
  [abi]='header, ledger and library agree; the examples run; strict C99 and C++17'
  [sim]='client and server engines in one process under a seeded network and clock'
  [scenarios]='what a caller must see of a scripted server, in each calling style'
  [fuzz]='the corpora through the codecs and engines; --all also searches on'
  [cli]='the command line: bad input, exit statuses'
  [faults]='real processes killed under load, five thousand sessions'
  [interop]='the published Python and Rust clients against our server'
  [bench-smoke]='instructions, allocations and system calls of a cycle; benchmarks and demo prove their sums'
  [clang]='everything compiles with clang without a warning; unit tests run'
  [sanitize-address]='the same suites but interop under ASan and UBSan'
  [sanitize-thread]='unit, abi, sim and the threaded scenarios under TSan'
)

all=0
chosen=()
usage_error() {
  printf 'tests/run.sh: %s; see bash tests/run.sh --help\n' "$1" >&2
  exit 64
}
while (($#)); do
  case $1 in
  --all) all=1 ;;
  --suite)
    (($# > 1)) || usage_error "--suite needs a name"
    shift
    [[ -n ${about[$1]:-} ]] || usage_error "no suite is called '$1'; there are ${suites[*]}"
    chosen+=("$1")
    ;;
  --list)
    for suite in "${suites[@]}"; do printf '%-18s%s\n' "$suite" "${about[$suite]}"; done
    exit 0
    ;;
  --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  *) usage_error "unknown option '$1'" ;;
  esac
  shift
done
((${#chosen[@]})) || chosen=("${suites[@]}")

readonly build_root=$root/.build
mkdir -p "$build_root/logs" || exit 1
exec 9>"$build_root/lock"
if ! flock -n 9; then
  printf 'tests/run.sh: another run is at work in %s; wait for its end\n' "$build_root" >&2
  exit 1
fi

jobs=$(nproc)
export TICKETING_TEST_ALL=$all
if ((all)); then
  export TICKETING_SIM_SEEDS=${TICKETING_SIM_SEEDS:-4000} TICKETING_KILL_SECONDS=${TICKETING_KILL_SECONDS:-60}
fi
# What a user has set for his own servers is not for the tests.
unset TICKETING_ADDR TICKETING_CLIENT_TOKEN TICKETING_CLIENT_TOKENS TICKETING_TLS TICKETING_TLS_CA
export UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=second_deadlock_stack=1
# Every process a test starts inherits this mark; whoever carries it at the end was left running.
TICKETING_TEST_RUN="$$-$(date +%s)"
export TICKETING_TEST_RUN

passed=0 failed=0 skipped=0
log=/dev/null

note() { printf '   %s\n' "$*"; }

# A suite that cannot run for lack of a tool; where CI=true that is a failure.
lacks() {
  note "skipped: $*"
  if [[ ${CI:-} == true ]]; then failed=$((failed + 1)); else skipped=$((skipped + 1)); fi
}

fails() {
  note "failed: $*"
  failed=$((failed + 1))
}

# Adds what tally.py counted to the suite's sums.
add_tally() {
  local out first rest
  if ! out=$(python3 tests/tally.py "$@"); then
    fails "cannot count the tests of: $*"
    return
  fi
  first=${out%%$'\n'*}
  read -r -a first <<<"$first"
  passed=$((passed + first[0]))
  failed=$((failed + first[1]))
  skipped=$((skipped + first[2]))
  if [[ $out == *$'\n'* ]]; then
    rest=${out#*$'\n'}
    note "${rest//$'\n'/$'\n'   }"
  fi
  # A test program may skip for lack of a tool just as a suite may. Under a sanitizer some cases have
  # no meaning (it brings its own allocator), and what lacks a tool has shown in the other suites.
  if [[ ${CI:-} == true && $suite != sanitize-* ]] && ((first[2] > 0)); then fails "${first[2]} skipped where CI=true"; fi
}

declare -A installed=()
need() {
  local group
  for group in "$@"; do
    if [[ -z ${installed[$group]:-} ]]; then
      if ticketing_install "$group" 9>&-; then installed[$group]=yes; else installed[$group]=no; fi
    fi
    if [[ ${installed[$group]} == no ]]; then
      lacks "the packages of group '$group' (see above)"
      return 1
    fi
  done
}

# One program: its output goes to the log, its cases are counted.
run_counted() {
  local status output
  output=$(mktemp "$build_root/logs/output.XXXXXX")
  timeout --foreground --kill-after=10 1200 "$@" >"$output" 2>&1 </dev/null 9>&-
  status=$?
  { printf '$ %s\n' "$*" && cat "$output"; } >>"$log"
  ((status == 0)) || note "ended with status $status: $*"
  add_tally log "$status" "$output"
  rm -f "$output"
}

# The build of a configuration, made once: gcc, clang, address, thread, fuzzers.
declare -A built=()
build() {
  local config=$1 dir=$build_root/$1 options=()
  if [[ -z ${built[$config]:-} ]]; then
    case $config in
    gcc) options=(-DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=RelWithDebInfo) ;;
    clang) options=(-DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo) ;;
    address | thread)
      options=(-DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1 -DTICKETING_SANITIZE="$config")
      ;;
    fuzzers)
      options=(-DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1 -DTICKETING_SANITIZE=address
        -DTICKETING_BUILD_FUZZERS=ON)
      ;;
    esac
    if cmake -S "$root" -B "$dir" -G Ninja -DTICKETING_BUILD_TESTS=ON "${options[@]}" >>"$log" 2>&1 </dev/null 9>&- &&
      ninja -C "$dir" -k 0 >>"$log" 2>&1 </dev/null 9>&-; then
      built[$config]=yes
    else
      built[$config]=no
    fi
  fi
  if [[ ${built[$config]} == no ]]; then
    fails "the $config build"
    return 1
  fi
}

# ctest of the tests whose names are, or begin with, what is given, in one build.
run_ctest() {
  local config=$1 dir=$build_root/$1 junit pattern fixed_addresses=() at_once=$jobs
  shift
  # ThreadSanitizer of gcc 12 fails where the kernel spreads addresses widely.
  if [[ $config == thread ]] && setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi
  pattern="^($(IFS='|' && printf '%s' "$*"))(\\.|\$)"
  junit=$dir/junit.xml
  rm -f "$junit"
  # Scenarios mostly wait, for rules that are about seconds.
  if [[ $* == scenarios* ]]; then at_once=$((jobs + 2)); fi
  "${fixed_addresses[@]}" ctest --test-dir "$dir" -R "$pattern" -j "$at_once" --output-on-failure --no-tests=ignore --timeout 900 \
    --test-output-size-passed 1000000 --test-output-size-failed 1000000 --output-junit "$junit" \
    >>"$log" 2>&1 </dev/null 9>&-
  if [[ -f $junit ]]; then add_tally junit "$junit"; else fails "ctest wrote no result"; fi
}

# Python tests with the programs of one build.
run_python() {
  local config=$1 dir=$build_root/$1 test
  shift
  for test in "$@"; do
    [[ -f $test ]] || continue
    TICKETING_BUILD=$dir TICKETING_PROGRAM=$dir/ticketing \
      TICKETING_FENCED_WORKER=$dir/tests/faults/fenced_worker run_counted python3 "$test"
  done
}

run_cli() {
  run_python "$1" tests/faults/cli_*test.py
}

run_faults() {
  local test tests=()
  for test in tests/faults/*_test.py; do
    [[ $test == tests/faults/cli_* ]] || tests+=("$test")
  done
  run_python "$1" "${tests[@]}"
}

suite_tidy() {
  need unit tidy || return
  run_counted python3 tests/tidy/tidy_test.py
  run_counted python3 tests/tally_test.py
}

# Says where each rule is proven; a hole without a reason is a failure.
suite_rules() {
  python3 tests/scenarios/table.py >"$build_root/rules.txt" 2>>"$log" </dev/null
  local status=$?
  cat "$build_root/rules.txt" >>"$log"
  sed 's/^/   /' "$build_root/rules.txt"
  if ((status == 0)); then passed=$((passed + 1)); else fails "a rule is proven nowhere, and no reason is given"; fi
}

suite_unit() {
  need build unit && build gcc && run_ctest gcc unit
}

suite_abi() {
  need build unit abi clang && build gcc || return
  run_ctest gcc abi
  run_python gcc tests/abi/*_test.py
}

suite_sim() {
  need build unit && build gcc && run_ctest gcc sim
}

suite_scenarios() {
  need build unit && build gcc && run_ctest gcc scenarios
}

suite_fuzz() {
  need build unit && build gcc || return
  run_ctest gcc fuzz
  ((all)) || return 0
  need clang && build fuzzers || return
  local target
  for target in "$build_root"/fuzzers/tests/fuzz/fuzz_*; do
    [[ -f $target && -x $target ]] || continue
    run_counted "$target" -max_total_time=60 -print_final_stats=1
  done
}

suite_cli() {
  need build unit && build gcc && run_cli gcc
}

suite_faults() {
  need build unit && build gcc && run_faults gcc
}

suite_interop() {
  need build unit interop && build gcc || return
  interop_python
  interop_rust rust
  interop_rust rust_framed
}

interop_python() {
  local venv=$build_root/interop/python
  if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    lacks "the published Python client needs Python 3.11, this is $(python3 --version)"
    return
  fi
  if ! "$venv/bin/python" -c 'import saro_ticketing' >/dev/null 2>&1; then
    rm -rf "$venv"
    if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check \
      -r tests/interop/python/requirements.txt; } >>"$log" 2>&1 </dev/null 9>&-; then
      lacks "the published Python client could not be installed (pip, see $log)"
      return
    fi
  fi
  TICKETING_PROGRAM=$build_root/gcc/ticketing run_counted "$venv/bin/python" tests/interop/python/client_test.py
}

interop_rust() {
  local version project=$build_root/interop/$1
  version=$(rustc --version 2>/dev/null | sed -E 's/^rustc ([0-9]+)\.([0-9]+).*/\1 \2/')
  local major=${version% *} minor=${version#* }
  if [[ -z $version ]] || ! command -v cargo >/dev/null || ((major == 1 && minor < 90)); then
    lacks "the published Rust client needs Rust 1.90 with cargo, $(rustc --version 2>/dev/null || printf 'there is none')"
    return
  fi
  # A copy, since cargo writes its lock file beside the sources.
  mkdir -p "$project" && cp -Rpu "tests/interop/$1/." "$project/" || return
  if ! cargo fetch --quiet --manifest-path "$project/Cargo.toml" >>"$log" 2>&1 </dev/null 9>&-; then
    lacks "the published Rust client could not be fetched (cargo, see $log)"
    return
  fi
  TICKETING_PROGRAM=$build_root/gcc/ticketing run_counted \
    cargo test --quiet --offline --manifest-path "$project/Cargo.toml" --target-dir "$project/target"
}

suite_bench_smoke() {
  need build unit counts && build gcc || return
  run_ctest gcc bench.counts
  run_counted "$build_root/gcc/ticketing" bench --cycles 2000
  run_counted "$build_root/gcc/ticketing" bench --cycles 2000 --io thread --json
  run_counted "$build_root/gcc/ticketing" demo --seconds 2
  run_counted python3 tests/bench/run.py --build "$build_root/gcc" --pairs 5 --cycles 2000
}

suite_clang() {
  need build unit clang && build clang || return
  passed=$((passed + 1)) # everything compiled
  run_ctest clang unit
}

suite_sanitize_address() {
  need build unit && build address || return
  run_ctest address unit abi sim fuzz
  run_ctest address scenarios
  run_cli address
  TICKETING_STORM_COUNT=2000 run_faults address
}

suite_sanitize_thread() {
  need build unit && build thread || return
  run_ctest thread unit abi sim
  if ((!all)); then
    run_ctest thread 'scenarios\.thread'
    return
  fi
  run_ctest thread scenarios
  run_cli thread
  run_faults thread
}

# Ends what carries this run's mark, by its id, and counts each as a failure.
end_left_running() {
  local folder pid entry
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    [[ $pid != "$$" && $pid != "$BASHPID" && -r $folder/environ ]] || continue
    while IFS= read -r -d '' entry; do
      [[ $entry == "TICKETING_TEST_RUN=$TICKETING_TEST_RUN" ]] || continue
      fails "left running: $pid $(tr '\0' ' ' <"$folder/cmdline" 2>/dev/null)"
      kill -KILL "$pid" 2>/dev/null
      break
    done 2>/dev/null <"$folder/environ"
  done
}

trap 'end_left_running >/dev/null; exit 130' INT TERM

total_passed=0 total_failed=0 total_skipped=0
summary=()
for suite in "${chosen[@]}"; do
  printf '== %s: %s\n' "$suite" "${about[$suite]}"
  passed=0 failed=0 skipped=0
  log=$build_root/logs/$suite.log
  : >"$log"
  started=$SECONDS
  "suite_${suite//-/_}"
  end_left_running
  ((passed + failed + skipped)) || fails "ran no test"
  if ((failed)); then
    printf '   --- end of %s\n' "$log"
    tail -n 60 "$log" | sed 's/^/   | /'
  fi
  summary+=("$(printf '%-18s%6d passed %4d failed %4d skipped  %5.1f min' "$suite" "$passed" "$failed" "$skipped" \
    "$(((SECONDS - started) * 10 / 6))e-2")")
  printf '%s\n' "${summary[-1]}"
  total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed)) total_skipped=$((total_skipped + skipped))
done

printf '\n'
printf '%s\n' "${summary[@]}"
if ((!all)); then
  printf 'Left out by the short run: fuzzing beyond the corpora, more seeds, longer faults, and cli, faults and two styles of scenarios under TSan (--all).\n'
fi
printf '%d passed, %d failed, %d skipped\n' "$total_passed" "$total_failed" "$total_skipped"
((total_failed == 0))
