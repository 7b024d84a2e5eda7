"""Includes go one way, and each layer keeps to what it is for."""
import re

# Layer: the layers whose headers it may include.
BELOW = {
    "base": {"base"},
    "wire": {"base", "wire"},
    "client": {"base", "wire", "client"},
    "server": {"base", "wire", "server"},
    "net": {"base", "net"},
    "drive": {"base", "wire", "client", "net", "drive"},
    "daemon": {"base", "wire", "server", "net", "daemon"},
    "abi": {"base", "wire", "client", "net", "drive", "abi"},
    "cli": {"cli"},
}
# The one command that is a server; the others use the public header like anybody else.
SERVER_COMMANDS = {"core/cli/serve.c": {"base", "daemon"}}
USES_PUBLIC_HEADER = {"abi", "cli"}

PURE = {"base", "wire", "client", "server"}
# What would bring a socket, thread, clock or file into a layer that is a pure function of its inputs.
IMPURE = {"fcntl.h", "netdb.h", "poll.h", "pthread.h", "semaphore.h", "signal.h", "threads.h", "time.h",
          "unistd.h"}
SOCKETS = ("sys/socket.h", "sys/un.h", "netinet/tcp.h", "netdb.h", "openssl/ssl.h", "openssl/bio.h")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def layer_of(path):
    parts = path.split("/")
    if parts[0] == "core" and len(parts) > 2:
        return parts[1]
    if path.startswith("abi/src/"):
        return "abi"
    return None


def target_of(path, name):
    """The layer an include names, "public" for the public header, None for the system's."""
    if name == "ticketing.h":
        return "public"
    first = name.split("/")[0]
    if "/" in name and first in BELOW:
        return first
    if layer_of(path) == "abi" and (first == "src" or "/" not in name):
        return "abi"
    return None


def check(files):
    found = []
    for path, text in sorted(files.items()):
        layer = layer_of(path)
        if layer is None or not path.endswith((".c", ".h")):
            continue
        if layer not in BELOW:
            found.append(f"{path}: {layer} is no layer that tests/tidy/layers.py knows")
            continue
        allowed = BELOW[layer] | SERVER_COMMANDS.get(path, set())
        for quote, name in INCLUDE.findall(text):
            target = target_of(path, name)
            if target == "public":
                if layer not in USES_PUBLIC_HEADER:
                    found.append(f"{path}: includes the public header, which is above {layer}")
            elif target is not None:
                if target not in allowed:
                    found.append(f"{path}: {layer} may not include {name}")
            elif quote == '"':
                found.append(f'{path}: "{name}" names no layer; write "{layer}/{name}"')
            elif layer in PURE and (name in IMPURE or name.startswith("sys/") and name != "sys/types.h"):
                found.append(f"{path}: {layer} is pure, <{name}> is not for it")
            elif name in SOCKETS and layer != "net":
                found.append(f"{path}: only core/net talks to sockets, not <{name}> here")
    return found
