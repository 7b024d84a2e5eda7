# shellcheck shell=bash
# The one list of Debian packages this project needs, and the one function that installs them.
# Source it, then call: ticketing_install GROUP...
#
# Groups: build (library, server and command line), test (everything tests/run.sh uses), bench (what
# tests/bench/run.py compares with), or one of the finer ones that `test` is made of: unit, counts,
# clang, tidy, abi, interop.

# Prints `group package reason`, one a line.
ticketing_packages() {
  cat <<'END'
build gcc the C11 compiler
build libc6-dev headers of glibc and of the kernel
build cmake reads CMakeLists.txt, 3.20 or newer
build ninja-build runs the build
build pkg-config finds libraries
build libssl-dev TLS and SHA-256; OpenSSL 3.0 or newer
build libsqlite3-dev the accounts of `ticketing demo`
unit libcmocka-dev the unit test framework
unit python3 tests that start the real programs
unit openssl certificates for tests, good and bad ones
counts valgrind instructions and allocations a cycle, for bounds that no load moves
counts strace system calls of a turn
clang clang second compiler with -Werror, libFuzzer
clang libclang-rt-14-dev run-time of clang's sanitizers and of libFuzzer
tidy clang-format the format of every C file
tidy shellcheck reads the shell scripts
tidy git lists the files that belong to the project
abi g++ the header as strict C++17
abi binutils nm: what the library exports and imports
abi abigail-tools abidw, abidiff: what changed since a release
interop python3-venv a place of its own for the published Python client
bench libcmocka-dev the tests' build, which the programs of the comparison belong to
bench python3 runs the comparison
bench openssl the certificate of its server
bench redis-server a peer
bench libhiredis-dev its client library
END
}

# Prints the packages of the groups given, each once; 2 for a group that is none.
ticketing_packages_of() {
  local group wanted=' '
  for group in "$@"; do
    case $group in
    build | unit | counts | clang | tidy | abi | interop | bench) wanted+="$group " ;;
    test) wanted+='build unit counts clang tidy abi interop ' ;;
    *)
      printf 'dependencies: no group is called %s; there are build, test, bench, unit, counts, clang, tidy, abi, interop\n' \
        "'$group'" >&2
      return 2
      ;;
    esac
  done
  ticketing_packages | awk -v wanted="$wanted" 'index(wanted, " " $1 " ") && !seen[$2]++ { print $2 }'
}

# True where dpkg says the package is installed.
ticketing_installed() {
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# Installs what is missing of the groups given, as root or through sudo. Needs no network where
# nothing is missing. 0: all there; 1: not, with a sentence on stderr that says what to do.
ticketing_install() {
  local package packages missing=() as_root=() file
  packages=$(ticketing_packages_of "$@") || return
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    printf 'dependencies: this is no Debian-like system (no dpkg-query or apt-get). Install what these packages\n' >&2
    printf 'hold by hand, then set TICKETING_SKIP_INSTALL=1: %s\n' "${packages//$'\n'/ }" >&2
    [[ ${TICKETING_SKIP_INSTALL:-} == 1 ]]
    return
  fi
  for package in $packages; do
    ticketing_installed "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if [[ ${TICKETING_SKIP_INSTALL:-} == 1 ]]; then
    printf 'dependencies: TICKETING_SKIP_INSTALL=1, going on without: %s\n' "${missing[*]}" >&2
    return 0
  fi
  if ((EUID != 0)); then
    # sudo may ask for a password only where somebody can type one.
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
      as_root=(sudo)
    else
      printf 'dependencies: missing packages, and neither root nor sudo to install them. Run as root:\n' >&2
      printf '  apt-get update && apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
      return 1
    fi
  fi
  printf 'dependencies: installing %s\n' "${missing[*]}"
  file=$(mktemp) || return 1
  if "${as_root[@]}" apt-get update >"$file" 2>&1 &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      "${missing[@]}" >>"$file" 2>&1 </dev/null; then
    rm -f "$file"
    return 0
  fi
  tail -n 20 "$file" >&2
  rm -f "$file"
  printf 'dependencies: apt-get failed (above). Put it right and run as root:\n' >&2
  printf '  apt-get update && apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
  return 1
}
