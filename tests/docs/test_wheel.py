"""The wheel that the README tells people to install: its name, and that it holds all of Rota."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_wheel_of_the_readme_holds_every_file_and_the_extension(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    line = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(source)]
    subprocess.run(line, check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    assert f"./{wheel.name}[all]" in (ROOT / "README.md").read_text()
    packed = set(zipfile.ZipFile(wheel).namelist())
    ours = {
        path.relative_to(source / "src").as_posix()
        for pattern in ("*.py", "*.pyi", "*.sql", "py.typed")
        for path in (source / "src/rota").rglob(pattern)
    }
    assert sorted(ours - packed) == []
    assert [name for name in packed if name.endswith("_confined_exec.abi3.so")] != []


def test_the_readme_lists_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    listed = re.findall(r"^\| `\[(\w+)\]`", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(extras)
