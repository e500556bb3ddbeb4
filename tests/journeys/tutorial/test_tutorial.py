"""The tutorial, typed as it stands there, against a real `rota up`. What it shows is what appears."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.harness.cluster import free_port
from tests.journeys.tutorial.page import Block, Typed, blocks, differs

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/tutorial.md"
START_SECONDS = 120.0
ANSWER_SECONDS = 120.0
_END = "--- end of the answer"


@dataclass
class Shell:
    """One bash for the whole page, so that variables and the folder stay."""

    process: subprocess.Popen[bytes]

    def type(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\necho; echo '{_END}'\n".encode())
        self.process.stdin.flush()
        seen = b""
        while not seen.endswith(f"\n{_END}\n".encode()):
            ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
            more = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            assert more, f"no end of the answer to {line!r}: {seen.decode()}"
            seen += more
        return seen.decode().removesuffix(f"\n{_END}\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tutorial")
    (made / "tutorial").mkdir()
    return made


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in ("ROTA_SERVER", "ROTA_TOKEN")}
    path = f"{Path(sys.executable).parent}:{own['PATH']}"
    return {**own, "PATH": path, "ROTA_PROFILE": str(folder / "profile.toml"), "PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="module")
def shell(folder: Path, environment: dict[str, str]) -> Iterator[Shell]:
    """A shell in the tutorial's folder, beside a `rota up` that was started there."""
    log = folder / "up.log"
    options = ["--data", str(folder / "data"), "--port", str(free_port()), "--capacity", "cpu=2,memory=4G,disk=20G"]
    with log.open("wb") as output:
        up = subprocess.Popen(
            [sys.executable, "-m", "rota.cli", "up", *options],
            cwd=folder / "tutorial",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
        )
    assert up.stdout is not None
    try:
        shown = b""
        while b"stops it" not in shown:
            ready, _, _ = select.select([up.stdout], [], [], START_SECONDS)
            read = os.read(up.stdout.fileno(), 4096) if ready else b""
            assert read, f"rota up did not start:\n{shown.decode()}\n{log.read_text()}"
            shown += read
        bash = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder / "tutorial",
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        yield Shell(bash)
        assert bash.stdin is not None
        bash.stdin.close()
        bash.wait(30)
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait(30)
        up.stdout.close()


def test_the_tutorial_shows_what_appears_when_it_is_typed(shell: Shell, folder: Path) -> None:
    session: list[str] = []
    for block in blocks(PAGE):
        if block.kind == "file":
            (folder / "tutorial" / block.name).write_text(block.content)
            continue
        for typed, seen in in_python(shell, block) if block.kind == "python" else in_bash(shell, block):
            session.append(typed.text)
            difference = differs(typed.answer, seen)
            assert difference is None, f"after {session[-3:]}:\n{difference}"
    assert len(session) > 20


def in_bash(shell: Shell, block: Block) -> Iterator[tuple[Typed, str]]:
    for typed in block.typed:
        yield typed, shell.type(typed.text)


def in_python(shell: Shell, block: Block) -> Iterator[tuple[Typed, str]]:
    """Each statement as at Python's own prompt, which shows values and the last line of an exception."""
    program = [
        "import code, sys",
        "console = code.InteractiveConsole()",
        "console.showtraceback = lambda: print(f'{sys.exc_info()[0].__name__}: {sys.exc_info()[1]}')",
    ]
    for typed in block.typed:
        program.append(f"console.runsource({typed.text + chr(10)!r}, symbol='single')")
        program.append(f"print({_END + ' of a statement'!r})")
    shown = shell.type("python3 - <<'PROGRAM'\n" + "\n".join(program) + "\nPROGRAM")
    answers = shown.split(f"{_END} of a statement\n")
    assert len(answers) == len(block.typed) + 1, shown
    yield from zip(block.typed, answers, strict=False)
