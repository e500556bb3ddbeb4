"""What a file is to the kernel, by its first bytes: a script, a program for this machine, or neither.

Checked before a start, because a shell takes everything that the kernel refuses for a script: a program for another
machine would end with the shell's complaints about its bytes. Formats registered with binfmt_misc (emulators, Wine) are
accepted. Pure, but for `is_registered`.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

HEAD_BYTES = 4096
_TEXT_BYTES = 512  # the beginning of a script has no zero byte; data packed behind it may have some
_ELF = b"\x7fELF"
_LOAD, _INTERPRETER = 1, 3
_EXECUTABLE = (2, 3)  # position-dependent or position-independent
_MOST_HEADERS = 64
# By `uname -m`: the machine numbers in ELF headers that such a machine runs.
_MACHINES = {
    "x86_64": (62, 3),
    "i686": (3,),
    "aarch64": (183, 40),
    "armv7l": (40,),
    "armv6l": (40,),
    "riscv64": (243,),
    "ppc64le": (21,),
    "ppc64": (21,),
    "s390x": (22,),
    "loongarch64": (258,),
}
_BINFMT_MISC = "/proc/sys/fs/binfmt_misc"


@dataclass(frozen=True, slots=True)
class Format:
    """A format registered with the kernel: files with these bytes at that offset are run by a program it names."""

    offset: int
    magic: bytes
    mask: bytes

    def fits(self, head: bytes) -> bool:
        part = head[self.offset : self.offset + len(self.magic)]
        differing = (
            mask & (byte ^ expected) for byte, expected, mask in zip(part, self.magic, self.mask, strict=False)
        )
        return len(part) == len(self.magic) and not any(differing)


def is_for_shells(head: bytes) -> bool:
    """Text, as far as visible: a shell may run it."""
    return head.startswith(b"#!") or not (head.startswith(_ELF) or b"\0" in head[:_TEXT_BYTES])


def runs(head: bytes, size: int, machine: str) -> bool:
    """False for what neither this machine's kernel by itself nor a shell can run. `size` is the whole file's."""
    return is_for_shells(head) or _is_whole(head, size, _MACHINES.get(machine))


def loader_of(head: bytes) -> str:
    """The program that loads this one, which must exist too; "" if it needs none or it can't be told."""
    for kind, offset, length in _segments(head) or ():
        if kind == _INTERPRETER and offset + length <= len(head):
            return os.fsdecode(head[offset : offset + length].rstrip(b"\0"))
    return ""


def is_registered(head: bytes) -> bool:
    """Whether binfmt_misc has a program for such files."""
    try:
        names = os.listdir(_BINFMT_MISC)
    except OSError:
        return False
    for name in names:
        try:
            with open(f"{_BINFMT_MISC}/{name}", encoding="ascii") as file:
                registered = read_format(file.read())
        except (OSError, ValueError):
            continue  # "register", which can't be read, or removed meanwhile
        if registered is not None and registered.fits(head):
            return True
    return False


def read_format(entry: str) -> Format | None:
    """An entry of binfmt_misc; None if it is off or goes by the file's name."""
    lines = entry.splitlines()
    fields = dict(line.split(" ", 1) for line in lines if " " in line)
    if not lines or lines[0] != "enabled" or "magic" not in fields:
        return None
    magic = bytes.fromhex(fields["magic"])
    mask = bytes.fromhex(fields["mask"]) if "mask" in fields else b"\xff" * len(magic)
    return Format(int(fields["offset"]), magic, mask)


def _is_whole(head: bytes, size: int, numbers: tuple[int, ...] | None) -> bool:
    segments = _segments(head)
    if segments is None:
        return False
    kind, number = struct.unpack_from("<HH" if head[5] == 1 else ">HH", head, 16)
    if kind not in _EXECUTABLE or (numbers is not None and number not in numbers):
        return False
    return all(offset + length <= size for type_, offset, length in segments if type_ == _LOAD)


def _segments(head: bytes) -> list[tuple[int, int, int]] | None:
    """Kind, offset and length of each, as far as the head shows; None if this is no ELF file, or not a whole one."""
    if len(head) < 64 or not head.startswith(_ELF) or head[4] not in (1, 2) or head[5] not in (1, 2):
        return None
    order, wide = "<" if head[5] == 1 else ">", head[4] == 2
    (start,) = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)
    entry, count = struct.unpack_from(order + "HH", head, 54 if wide else 42)
    segments: list[tuple[int, int, int]] = []
    for index in range(min(count, _MOST_HEADERS)):
        where = start + index * entry
        if where + (56 if wide else 32) > len(head):
            # Far behind, as some tools leave them: the kernel will check. In a short file they are cut off.
            return segments if len(head) == HEAD_BYTES else None
        if wide:
            kind, offset, length = struct.unpack_from(order + "I4xQ16xQ", head, where)
        else:
            kind, offset, length = struct.unpack_from(order + "II8xI", head, where)
        segments.append((kind, offset, length))
    return segments or None
