"""A minimal wire 2 client in blocking sockets: what a test needs to speak bytes to the server."""
import base64
import hashlib
import socket
import struct


def connect(address, token=b"", timeout=20):
    host, port = address.rsplit(":", 1)
    s = socket.create_connection((host.strip("[]"), int(port)), timeout=timeout)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream = s.makefile("rb")
    word, nonce = stream.readline().rstrip(b"\n").split(b" ", 1)
    proof = base64.urlsafe_b64encode(hashlib.sha256(token + nonce).digest()).rstrip(b"=")
    s.sendall(proof + b"\n")
    return s, stream


def acquire_frame(owner, key, wait=0, lease=10):
    return struct.pack(">cHHQ", b"A", wait, lease, owner) + key + b"\n"


def release_frame(token, key):
    return struct.pack(">cQ", b"R", token) + key + b"\n"


def read_reply(stream):
    """(opcode, numbers, text) of the next reply; keep-alives are passed over; None at the end."""
    while True:
        op = stream.read(1)
        if not op:
            return None
        if op == b"\n":
            continue
        numbers = {b"A": 2, b"T": 1, b"B": 1, b"R": 1, b"N": 1}.get(op, 0)
        fixed = struct.unpack(f">{numbers}Q", stream.read(8 * numbers))
        return op.decode(), fixed, stream.readline().rstrip(b"\n")
