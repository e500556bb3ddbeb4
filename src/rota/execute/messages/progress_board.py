"""The progress board of a warm child: a few bytes of memory shared with its agent, on which functions write progress.

Writing is one system call, whatever the agent does; the agent polls and sees the latest. So a function can't flood the
agent, and one without progress costs nothing. The content is checked: the function may write anything to it.
"""

from __future__ import annotations

import os
import struct
import zlib

import msgspec

from rota.model.progress import MOST_CHARACTERS, Progress, cleaned

_BOARD_BYTES = 2048
_HEADER = struct.Struct("<II")  # length of the body, its checksum: a half-written one is ignored


class _Note(msgspec.Struct, frozen=True, array_like=True):
    call: int
    progress: Progress


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Note).decode


def make() -> int:
    return os.memfd_create("rota-board", os.MFD_CLOEXEC)


def write(descriptor: int, call: int, progress: Progress) -> None:
    body = _encode(_Note(call, Progress(progress.fraction, progress.message[:MOST_CHARACTERS])))
    os.pwrite(descriptor, _HEADER.pack(len(body), zlib.crc32(body)) + body, 0)


def read(descriptor: int, call: int) -> Progress | None:
    """The progress that this call has written; None without one, or if it is malformed."""
    data = os.pread(descriptor, _BOARD_BYTES, 0)
    if len(data) < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack_from(data)
    body = data[_HEADER.size : _HEADER.size + length]
    if len(body) != length or zlib.crc32(body) != checksum:
        return None
    try:
        note = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return cleaned(note.progress) if note.call == call else None
