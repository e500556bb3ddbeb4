"""Programs for other machines: refused before the start, and never given to a shell to read."""

from __future__ import annotations

import errno
import os
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.execute.keeper import launch, programs, spawn
from rota.execute.keeper.launch import NotStarted

MACHINE = os.uname().machine
TRUE = Path(os.path.realpath("/bin/true")).read_bytes()
OTHER = TRUE[:18] + struct.pack("<H", 183 if MACHINE == "x86_64" else 62) + TRUE[20:]
FOREIGN = {
    "another-machine": OTHER,
    "cut-off": TRUE[:1000],
    "cut-off-late": TRUE[: len(TRUE) // 2],
    "header-alone": TRUE[:64],
    "magic-alone": b"\x7fELF",
    "windows": b"MZ\x90\0\x03\0\0\0" + bytes(200),
    "zeros": bytes(100),
    "object-file": TRUE[:16] + struct.pack("<H", 1) + TRUE[18:],
}


def test_what_is_here_runs_here() -> None:
    for path in (sys.executable, "/bin/sh", "/bin/true"):
        content = Path(path).read_bytes()
        assert programs.runs(content[: programs.HEAD_BYTES], len(content), MACHINE), path
    for text in (b"", b"echo hello", b"#!/bin/sh\n" + bytes(50), "echo größe".encode("latin-1")):
        assert programs.runs(text, len(text), MACHINE)


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_what_is_not_for_this_machine_is_refused_however_it_is_given(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tool"
    path.write_bytes(content)
    path.chmod(0o755)
    sentence = f"is not a program for this machine ({MACHINE})"
    ways = {
        "the uploaded file": lambda: launch.uploaded(str(path), None, []),
        str(path): lambda: launch.command([str(path)], search="", folder="/"),
        f"{tmp_path}/tool": lambda: launch.command(["tool"], search=str(tmp_path), folder="/"),
    }
    for name, way in ways.items():
        with pytest.raises(NotStarted) as refused:
            way()
        assert (refused.value.slug, refused.value.message) == ("not-executable", f"{name} {sentence}")
    path.chmod(0o644)
    with pytest.raises(NotStarted, match="is not a program for this machine"):
        launch.file(str(path), None, [])
    assert launch.uploaded(str(path), ["java", "-jar"], []) == ["java", "-jar", str(path)], "its interpreter will know"


def test_a_shell_is_asked_to_run_text_alone(tmp_path: Path) -> None:
    path = tmp_path / "tool"
    path.write_bytes(FOREIGN["another-machine"])
    path.chmod(0o755)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        with pytest.raises(OSError, match="Exec format error") as refused:
            spawn.spawn([str(path)], {}, null, [null, null])
    finally:
        os.close(null)
    assert refused.value.errno == errno.ENOEXEC
    assert launch.refusal(refused.value, [str(path)]).message == f"{path} is not a program for this machine ({MACHINE})"


def test_a_program_whose_loader_is_missing_names_it(tmp_path: Path) -> None:
    loader = programs.loader_of(TRUE[: programs.HEAD_BYTES])
    assert os.path.exists(loader)
    path = tmp_path / "tool"
    path.write_bytes(TRUE)
    path.chmod(0o755)
    with pytest.raises(NotStarted) as refused:
        launch.command([str(path)], search="", folder="/", locate=lambda seen: "" if seen == loader else seen)
    assert refused.value.message == f"there is no {loader} on this node, which loads {path}"


def test_what_the_kernel_was_taught_is_known_by_its_bytes() -> None:
    emulator = "enabled\ninterpreter /usr/bin/qemu\nflags: F\noffset 18\nmagic b700\nmask feff\n"
    found = programs.read_format(emulator)
    assert found is not None
    assert found.fits(bytes(18) + b"\xb7\0")
    assert not found.fits(bytes(18) + b"\x3e\0")
    assert not found.fits(bytes(18))
    assert programs.read_format(emulator.replace("enabled", "disabled")) is None
    assert programs.read_format("enabled\ninterpreter /usr/bin/jexec\nflags:\nextension .jar\n") is None
    assert programs.read_format("enabled") is None


@given(st.binary(max_size=200), st.integers(0, 10_000))
def test_no_bytes_behind_the_magic_word_make_it_stumble(rest: bytes, size: int) -> None:
    """Whatever a file claims to be, it is checked: no exception, and no shell for it."""
    for head in (b"\x7fELF" + rest, b"\x7fELF\x02\x01" + rest, b"\x7fELF\x01\x02" + rest):
        assert programs.runs(head, size, MACHINE) in (True, False)
        assert isinstance(programs.loader_of(head), str)
        assert not programs.is_for_shells(head)


def test_a_text_file_on_the_node_is_run_by_its_first_line_else_by_the_program_of_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "fit.py"
    path.write_text("print(1)\n")
    for mode in (0o644, 0o755):  # the kernel would give an executable one to a shell
        path.chmod(mode)
        assert launch.file(str(path), None, ["x"]) == ["python3", str(path), "x"]
    path.write_text("#!/usr/bin/env pypy3\n")
    assert launch.file(str(path), None, []) == [str(path)]
    path.chmod(0o644)
    assert launch.file(str(path), None, []) == ["/usr/bin/env", "pypy3", str(path)]
    odd = tmp_path / "job.nightly"
    odd.write_text("echo 1\n")
    assert launch.file(str(odd), None, []) == ["/bin/sh", str(odd)]
