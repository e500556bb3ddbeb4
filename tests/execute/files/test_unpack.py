"""Untrusted archives: honest ones are unpacked unchanged, hostile ones are refused by name."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import stat
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.execute.files.unpack import TooLarge, Unpacked, Unsafe, unpack

LIMIT_BYTES, LIMIT_FILES = 1_000_000, 100


def unpacked(
    archive: bytes,
    folder: Path,
    *,
    limit_bytes: int = LIMIT_BYTES,
    limit_files: int = LIMIT_FILES,
    reserved: tuple[str, ...] = (),
) -> Unpacked:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return unpack(
            io.BytesIO(archive), descriptor, limit_bytes=limit_bytes, limit_files=limit_files, reserved=reserved
        )
    finally:
        os.close(descriptor)


def tar(*members: tuple[str, bytes | None] | tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    """Names with their bytes; None makes a folder, a header stands for itself."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member, io.BytesIO(bytes(member.size)))
                continue
            name, data = member
            header = tarfile.TarInfo(name)
            if data is None:
                header.type, header.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(header)
            else:
                header.size = len(data)
                archive.addfile(header, io.BytesIO(data))
    return made.getvalue()


def special(name: str, kind: bytes, target: str = "", *, mode: int = 0o644) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname, header.mode = kind, target, mode
    return header


def packed(*members: tuple[str | zipfile.ZipInfo, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", how) as archive, _quiet():
        for name, data in members:
            archive.writestr(name, data)
    return made.getvalue()


def entry(name: str, mode: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.create_system = 3
    made.external_attr = mode << 16
    return made


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # duplicates are what we are after
        yield


# ---- honest ones ------------------------------------------------------------------------------------------------------

TREE = (("./", None), ("bin/run", b"#!/bin/sh\n"), ("data/a/b.txt", b"x" * 5000), ("data/empty", b""), ("data/c", None))


@pytest.mark.parametrize("squeeze", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["tar", "gz", "bz2", "xz"])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_comes_out_as_it_went_in(tmp_path: Path, squeeze: Callable[[bytes], bytes], form: int) -> None:
    long = "l" * 90 + "/" + "n" * 95
    assert unpacked(squeeze(tar(*TREE, (long, b"y"), form=form)), tmp_path) == Unpacked(4, 5, 5011)
    assert (tmp_path / "data/a/b.txt").read_bytes() == b"x" * 5000
    assert (tmp_path / "data/c").is_dir()
    assert (tmp_path / long).read_bytes() == b"y"


@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_comes_out_as_it_went_in(tmp_path: Path, how: int) -> None:
    archive = packed(("a/", b""), ("a/b.txt", b"x" * 5000), ("c", b""), how=how)
    assert unpacked(archive, tmp_path) == Unpacked(2, 1, 5000)
    assert (tmp_path / "a/b.txt").read_bytes() == b"x" * 5000


@pytest.mark.parametrize(
    "make",
    [
        lambda: tar(
            _sized(special("run", tarfile.REGTYPE, mode=0o6755)), _sized(special("plain", tarfile.REGTYPE, mode=0o7666))
        ),
        lambda: packed((entry("run", stat.S_IFREG | 0o6755), b""), (entry("plain", stat.S_IFREG | 0o7666), b"")),
    ],
    ids=["tar", "zip"],
)
def test_of_a_mode_only_the_executable_bit_is_kept(tmp_path: Path, make: Callable[[], bytes]) -> None:
    unpacked(make(), tmp_path)
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o644


def _sized(header: tarfile.TarInfo, size: int = 0) -> tarfile.TarInfo:
    header.size = size
    return header


@pytest.mark.parametrize(
    "make", [lambda name: tar((name, b"x")), lambda name: packed((name, b"x"))], ids=["tar", "zip"]
)
def test_reserved_names_are_refused_at_the_top_only(tmp_path: Path, make: Callable[[str], bytes]) -> None:
    reserved = ("checkpoint", ".rota-*")
    for name in ("checkpoint", "checkpoint/x", "./checkpoint/x", ".rota-result", ".rota-/x"):
        with pytest.raises(Unsafe, match="is a reserved name"):
            unpacked(make(name), tmp_path, reserved=reserved)
        assert list(tmp_path.iterdir()) == []
    for place, name in enumerate(("checkpoint.py", "a/checkpoint/x", "a/.rota-result", ".rota")):
        (folder := tmp_path / str(place)).mkdir()
        assert unpacked(make(name), folder, reserved=reserved).files == 1


def test_one_that_is_too_large_says_how_large_it_is_at_least(tmp_path: Path) -> None:
    with pytest.raises(TooLarge) as refusal:
        unpacked(tar(("a", b"x" * 10), ("b", bytes(3_000_000))), tmp_path)
    assert refusal.value.size_bytes == 3_000_010


# ---- hostile ones -----------------------------------------------------------------------------------------------------

HOSTILE = {
    "an absolute path": (tar(("/etc/evil", b"x")), "absolute"),
    "a way out": (tar(("a/../../evil", b"x")), "leads out"),
    "a way out that would come back": (tar(("a/../evil", b"x")), "leads out"),
    "a backslash": (tar(("..\\evil", b"x")), "backslash"),
    "a symbolic link": (tar(special("evil", tarfile.SYMTYPE, "/etc/passwd")), "symbolic link"),
    "a file through a link": (tar(special("evil", tarfile.SYMTYPE, "/tmp"), ("evil/x", b"x")), "symbolic link"),
    "a hard link": (tar(("a", b"x"), special("evil", tarfile.LNKTYPE, "a")), "hard link"),
    "a FIFO": (tar(special("evil", tarfile.FIFOTYPE)), "FIFO"),
    "a character device": (tar(special("evil", tarfile.CHRTYPE)), "device"),
    "a block device": (tar(special("evil", tarfile.BLKTYPE)), "device"),
    "a sparse file": (tar(special("evil", tarfile.GNUTYPE_SPARSE)), "sparse|damaged"),
    "an unknown kind": (tar(special("evil", b"Z")), "unknown kind"),
    "the same file twice": (tar(("evil", b"1"), ("evil", b"2")), "twice"),
    "names that differ in capitals": (tar(("Evil", b"1"), ("evil", b"2")), "capitals"),
    "folders that differ in capitals": (tar(("Evil/a", b"1"), ("evil/b", b"2")), "capitals"),
    "a file that is a folder": (tar(("evil", b"1"), ("evil/b", b"2")), "file and a folder"),
    "a folder that is a file": (tar(("evil/b", b"1"), ("evil", b"2")), "file and a folder"),
    "a name without end": (tar(("a/" * 2000 + "evil", b"")), "too long|header"),
    "a name too long for a file": (tar(("e" * 300, b"")), "255"),
    "a name that is not UTF-8": (tar(("evil\udcff", b"")), "UTF-8"),
    "a nameless file": (tar((".", b"x")), "no name"),
    "more bytes than allowed": (tar(("evil", bytes(LIMIT_BYTES + 1))), "more than"),
    "more bytes together": (tar(*((f"evil{n}", bytes(LIMIT_BYTES // 4)) for n in range(5))), "more than"),
    "a bomb": (gzip.compress(tar(("evil", bytes(8 * LIMIT_BYTES)))), "more than"),
    "more files than allowed": (tar(*((f"evil{n}", b"") for n in range(LIMIT_FILES + 1))), "more than 100 files"),
    "more folders than allowed": (tar(*((f"{n}/evil", b"") for n in range(LIMIT_FILES))), "more than 100 files"),
    "an enormous header": (
        gzip.compress(tarfile.TarInfo.create_pax_global_header({"comment": "x" * 200_000}) + tar(("a", b""))),
        "header",
    ),
    "nothing": (b"", "damaged"),
    "noise": (os.urandom(5000), "damaged"),
    "garbage behind the first member": (tar(("evil", b"x"))[:1024] + b"\xff" * 1024, "damaged"),
    "a tar cut in the middle": (tar(("evil", bytes(5000)))[:2000], "damaged"),
    "a gzip cut in the middle": (gzip.compress(tar(("evil", os.urandom(5000))))[:2000], "damaged"),
    "zip: an absolute path": (packed(("/etc/evil", b"x")), "absolute"),
    "zip: a way out": (packed(("a/../../evil", b"x")), "leads out"),
    "zip: a backslash": (packed(("..\\evil", b"x")), "backslash"),
    "zip: a NUL": (packed(("evi_.txt", b"x")).replace(b"evi_", b"evi\0"), "NUL"),
    "zip: a symbolic link": (packed((entry("evil", stat.S_IFLNK | 0o777), b"/etc/passwd")), "symbolic link"),
    "zip: a FIFO": (packed((entry("evil", stat.S_IFIFO | 0o666), b"")), "neither"),
    "zip: a device": (packed((entry("evil", stat.S_IFCHR | 0o666), b"")), "neither"),
    "zip: the same file twice": (packed(("evil", b"1"), ("evil", b"2")), "twice"),
    "zip: names that differ in capitals": (packed(("Evil", b"1"), ("evil", b"2")), "capitals"),
    "zip: a bomb": (packed(("evil", bytes(8 * LIMIT_BYTES))), "more than"),
    "zip: more files than allowed": (packed(*((f"evil{n}", b"") for n in range(101))), "more than 100 files"),
    "zip: an encrypted file": (
        packed(("evil", b"x"))
        .replace(b"PK\x03\x04\x14\0\0\0", b"PK\x03\x04\x14\0\1\0")
        .replace(b"PK\x01\x02\x14\x03\x14\0\0\0", b"PK\x01\x02\x14\x03\x14\0\1\0"),
        "encrypted",
    ),
    "zip: other bytes than its sum says": (
        packed(("evil", b"abcdefgh"), how=zipfile.ZIP_STORED).replace(b"abcd", b"abcx"),
        "damaged",
    ),
    "zip: no list of members": (packed(("evil", b"x"))[:40], "missing"),
    "zip: an endless list of members": (
        packed(("evil", b"x"))[:-10] + struct.pack("<L", 2**31) + packed(("evil", b"x"))[-6:],
        "too long|damaged",
    ),
}


OF_THE_WHOLE = {  # where no one member is to blame
    "a sparse file",
    "a name without end",
    "a name too long for a file",
    "a nameless file",
    "an enormous header",
    "nothing",
    "noise",
    "garbage behind the first member",
    "a tar cut in the middle",
    "a gzip cut in the middle",
    "zip: other bytes than its sum says",
    "zip: no list of members",
    "zip: an endless list of members",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_archive_is_refused_and_named(tmp_path: Path, what: str) -> None:
    """Nothing appears outside the folder, and inside only files and folders."""
    archive, why = HOSTILE[what]
    folder = tmp_path / "in"
    folder.mkdir()
    with pytest.raises(Unsafe, match=why) as refusal:
        unpacked(archive, folder)
    _check_tame(tmp_path, folder)
    text = str(refusal.value)
    assert text.isascii() or "…" in text
    assert text.isprintable()
    if what not in OF_THE_WHOLE:
        assert "evi" in text.lower()


def _check_tame(tmp_path: Path, folder: Path) -> None:
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    total = 0
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            facts = os.lstat(os.path.join(root, name))
            assert stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)
            assert not facts.st_mode & 0o7000
            total += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    assert total <= LIMIT_BYTES


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(Unsafe, match="not empty"):
        unpacked(tar(("there", b"yours")), tmp_path)
    assert (tmp_path / "there").read_text() == "mine"


_NAMES = st.one_of(
    st.sampled_from(["a", "a/b", "A", "../x", "/x", "a/../b", ".", "", "a\\b", "x" * 300, "d/" * 70 + "e", "a\0b"]),
    st.text(max_size=12),
)
_KINDS = st.sampled_from(
    [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, b"S", b"x", b"L", b"?"]
)


@given(
    st.lists(st.tuples(_NAMES, _KINDS, st.integers(0, 2000), st.integers(0, 0o7777)), max_size=6),
    st.lists(st.tuples(st.integers(0, 10_000), st.binary(min_size=1, max_size=8)), max_size=3),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_in_a_tar_it_unpacks_tamely_or_is_unsafe(
    tmp_path_factory: pytest.TempPathFactory,
    members: list[tuple[str, bytes, int, int]],
    scratches: list[tuple[int, bytes]],
) -> None:
    """No archive makes anything but files and folders below the folder, or raises anything but Unsafe."""
    made = []
    for name, kind, size, mode in members:
        header = special(name.encode(errors="ignore").decode(), kind, "/etc/passwd", mode=mode)
        made.append(_sized(header, size if kind in (tarfile.REGTYPE, b"S", b"x", b"L") else 0))
    try:
        archive = bytearray(tar(*made))
    except (ValueError, OSError, UnicodeError):
        return
    for place, noise in scratches:
        archive[place : place + len(noise)] = noise
    outer = tmp_path_factory.mktemp("fuzz")
    folder = outer / "in"
    folder.mkdir()
    with contextlib.suppress(Unsafe):
        unpacked(bytes(archive), folder)
    _check_tame(outer, folder)


@given(st.binary(max_size=200), st.integers(0, 400), st.sampled_from(["zip", "tar", "gz", "bz2", "xz"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_scratched_archive_of_any_kind_unpacks_tamely_or_is_unsafe(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, place: int, kind: str
) -> None:
    """The same for the compressors and the zip format."""
    plain = tar(("a/b", b"x" * 300), ("c", b"y"))
    archive = bytearray(
        {
            "zip": lambda: packed(("a/b", b"x" * 300), ("c", b"y")),
            "tar": lambda: plain,
            "gz": lambda: gzip.compress(plain),
            "bz2": lambda: bz2.compress(plain),
            "xz": lambda: lzma.compress(plain),
        }[kind]()
    )
    place %= len(archive)
    archive[place : place + len(noise)] = noise
    outer = tmp_path_factory.mktemp("fuzz")
    folder = outer / "in"
    folder.mkdir()
    with contextlib.suppress(Unsafe):
        unpacked(bytes(archive), folder)
    _check_tame(outer, folder)


def test_it_runs_as_a_program_with_nothing_but_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "good.tar.gz").write_bytes(gzip.compress(tar(("a/b", b"hello"))))
    (tmp_path / "bad.tar").write_bytes(tar(special("evil", tarfile.SYMTYPE, "/etc/passwd")))
    import rota.execute.files.unpack as module

    assert module.__file__ is not None
    command = [sys.executable, "-I", "-S", module.__file__]  # no site packages, no environment
    good = subprocess.run(
        [*command, str(tmp_path / "good.tar.gz"), str(tmp_path / "in"), "100", "10"], capture_output=True, text=True
    )
    assert (good.returncode, json.loads(good.stdout)) == (0, {"files": 1, "folders": 1, "bytes": 5}), good.stderr
    (tmp_path / "again").mkdir()
    bad = subprocess.run(
        [*command, str(tmp_path / "bad.tar"), str(tmp_path / "again"), "100", "10"], capture_output=True, text=True
    )
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr == "'evil': is a symbolic link; only files and folders are unpacked\n"
    wrong = subprocess.run([*command, "x", "y", "-1", "10"], capture_output=True, text=True)
    assert wrong.returncode == 2
    missing = subprocess.run([*command, str(tmp_path / "no"), str(tmp_path), "1", "1"], capture_output=True, text=True)
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
