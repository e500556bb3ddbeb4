"""After `pip install` without extras every command works, or says which line installs what it needs."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rota.cli.app import _COMMANDS
from rota.cli.shell import extras
from rota.cli.shell.extras import _OF_EXTRAS, install_line
from tests.harness import light_client

DATABASE = ("--database", "postgresql://a@127.0.0.1:1/a")


def light(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, light_client.__file__, *words],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("up",), "all"),
        (("serve", *DATABASE), "server"),
        (("worker", "--server", "http://127.0.0.1:1", "--token", "x"), "worker"),
        (("db", "version", *DATABASE), "server"),
        (("db", "upgrade", *DATABASE), "server"),
    ],
)
def test_what_needs_an_extra_says_the_line_that_installs_it(tmp_path: Path, words: tuple[str, ...], extra: str) -> None:
    ran = light(tmp_path, *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"rota: `rota {words[0]}` needs packages that are not installed, such as ")
    assert ran.stderr.endswith(f": {install_line(extra)}\n")
    assert ran.stderr.count("\n") == 1


def test_doctor_needs_no_extra_and_says_what_is_missing(tmp_path: Path) -> None:
    ran = light(tmp_path, "doctor", "-o", "json", *DATABASE)
    assert "Traceback" not in ran.stderr
    for extra in ("server", "worker"):
        assert install_line(extra) in ran.stdout


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (None, "pip install 'rota[all]'"),
        ('{"url": "https://example.org/rota.whl"}', "pip install 'rota[all]'"),
        (
            '{"archive_info": {}, "url": "file:///srv/our%20files/rota-0.1.0.whl"}',
            "pip install '/srv/our files/rota-0.1.0.whl[all]'",
        ),
        ('{"dir_info": {"editable": true}, "url": "file:///srv/rota"}', "pip install -e '/srv/rota[all]'"),
    ],
)
def test_an_extra_is_installed_from_where_rota_came_from(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, line: str
) -> None:
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: SimpleNamespace(read_text=lambda _: origin))
    assert extras.install_line("all") == line


def test_every_command_has_its_help_without_extras(tmp_path: Path) -> None:
    script = "\n".join(
        (
            "import sys, runpy",
            f"sys.argv = [{light_client.__file__!r}]",
            "from tests.harness.light_client import WithoutExtras",
            "from importlib.machinery import PathFinder",
            "sys.meta_path[:] = [*(one for one in sys.meta_path if one is not PathFinder), WithoutExtras()]",
            "from rota.cli.main import run",
            f"codes = {{name: run([name, '--help']) for name in {sorted(_COMMANDS)!r}}}",
            "sys.exit(repr({name: code for name, code in codes.items() if code}) if any(codes.values()) else 0)",
        )
    )
    root = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": root},
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_modules_of_extras_are_those_that_the_code_imports_and_a_light_client_lacks() -> None:
    hidden = light_client.WithoutExtras().hidden
    source = Path(light_client.__file__).parents[2] / "src" / "rota"
    imported = {
        line.split()[1].partition(".")[0]
        for path in source.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.lstrip().startswith(("import ", "from "))
    }
    assert (imported & hidden) - _OF_EXTRAS.keys() == set()
