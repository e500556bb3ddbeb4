"""One message, one packet: the framing between the agent, its keeper and its warm children.

Every packet on a SOCK_SEQPACKET pair starts with one byte that says where its body is: in the packet itself, or in a
memfd passed along as the last descriptor, because a socket buffer holds some 200 KB and a task's arguments may be
larger.
"""

from __future__ import annotations

import array
import os
import socket
import stat

INLINE_BYTES = 64 * 1024
PACKET_BYTES = INLINE_BYTES + 1
MAX_DESCRIPTORS = 16
DONTWAIT = int(socket.MSG_DONTWAIT)  # plain numbers: combining the enum's members costs a microsecond each time

_INLINE = b"\x00"
_IN_MEMFD = b"\x01"
_CLOSE_ON_EXEC = int(socket.MSG_CMSG_CLOEXEC)
_BUFFER = bytearray(PACKET_BYTES)
_BUFFERS = [_BUFFER]
_VIEW = memoryview(_BUFFER)
_ANCILLARY_BYTES = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(channel: socket.socket, body: bytes, descriptors: list[int] | None = None, flags: int = 0) -> None:
    """Sends `body` as one packet. With MSG_DONTWAIT it may raise BlockingIOError and has sent nothing."""
    if len(body) <= INLINE_BYTES:
        if not descriptors:
            channel.send(_INLINE + body, flags)
            return
        channel.sendmsg([_INLINE, body], _rights(descriptors), flags)
        return
    memory = os.memfd_create("rota-packet")
    try:
        write_all(memory, body)
        channel.sendmsg([_IN_MEMFD], _rights([*(descriptors or []), memory]), flags)
    finally:
        os.close(memory)


def receive(channel: socket.socket, flags: int = 0) -> tuple[bytes, list[int]] | None:
    """The next packet's body and descriptors; None when the other side is gone for good."""
    # One buffer is kept: a new one of this size per small packet costs more than the call.
    size, ancillary, _, _ = channel.recvmsg_into(_BUFFERS, _ANCILLARY_BYTES, flags | _CLOSE_ON_EXEC)
    if not size:
        return None
    descriptors = _descriptors(ancillary) if ancillary else []
    if _BUFFER[0] == 0:
        return bytes(_VIEW[1:size]), descriptors
    memory = descriptors.pop()
    try:
        return _read_all(memory), descriptors
    finally:
        os.close(memory)


def receive_untrusted(channel: socket.socket, *, most_bytes: int) -> bytes | None:
    """The next packet's body from an untrusted sender: bounded, and every passed descriptor is closed.

    ValueError: it is no packet of ours, or too large. None: the other side is gone.
    """
    size, ancillary, _, _ = channel.recvmsg_into(_BUFFERS, _ANCILLARY_BYTES, DONTWAIT | _CLOSE_ON_EXEC)
    descriptors = _descriptors(ancillary) if ancillary else []
    try:
        if not size:
            return None
        if _BUFFER[0] == 0:
            return bytes(_VIEW[1:size])
        if len(descriptors) != 1 or not stat.S_ISREG(os.fstat(descriptors[0]).st_mode):
            raise ValueError("a packet without its body")
        if os.fstat(descriptors[0]).st_size > most_bytes:
            raise ValueError(f"a packet of more than {most_bytes} bytes")
        return os.pread(descriptors[0], most_bytes, 0)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _rights(descriptors: list[int]) -> list[tuple[int, int, array.array[int]]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return list(descriptors)


def write_all(descriptor: int, body: bytes) -> None:
    view = memoryview(body)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_all(descriptor: int) -> bytes:
    # The sender wrote through the same open file, so its position is at the end: read by absolute offset.
    size = os.fstat(descriptor).st_size
    parts: list[bytes] = []
    offset = 0
    while offset < size:
        part = os.pread(descriptor, size - offset, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)
