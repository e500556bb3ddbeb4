"""The script of a task in a manifest: its text, its `commands` or `stages`, or the text of a file.

A file must be in the manifest's folder or below: a manifest from another source must not be able to send other files of
this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rota.client.manifest.stages import Stage, driver
from rota.model.errors import Fault

LARGEST_SCRIPT_BYTES = 1024 * 1024


class Scripts:
    """Reads each file once, even if many tasks use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[str | None, str]] = {}

    def of(self, task: Mapping[str, Any], pointer: str) -> tuple[str | None, Fault | None]:
        """The script's text, or the fault of its file; neither when the task has no script."""
        script, commands = task.get("script"), task.get("commands")
        if isinstance(commands, list):
            return "\n".join(["set -e", *map(str, commands), ""]), None
        if isinstance(task.get("stages"), list):
            return _driver(task["stages"], resume=task.get("resume") is True), None
        if not isinstance(script, dict):
            return (script if isinstance(script, str) else None), None
        name = script.get("file")
        if not isinstance(name, str):
            return None, None  # `task_faults` reports it
        if name not in self._read:
            self._read[name] = self._file(name)
        text, fault = self._read[name]
        return text, None if not fault else Fault(f"{pointer}/script/file", "invalid-path", f"{name[:200]!r}: {fault}")

    def _file(self, name: str) -> tuple[str | None, str]:
        try:
            folder = self._folder.resolve()
            path = (folder / name).resolve()
            if not path.is_relative_to(folder):
                return None, "outside the manifest's folder; put the script beside it or below"
            if path.is_dir():
                return None, "a directory, not a file"
            if not path.exists():
                return None, f"no such file in {self._folder}"
            if not path.is_file():
                return None, "not a regular file"
            with path.open("rb") as opened:
                data = opened.read(LARGEST_SCRIPT_BYTES + 1)
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: symbolic links in a cycle
            return None, f"cannot be read: {getattr(error, 'strerror', None) or error}"
        if len(data) > LARGEST_SCRIPT_BYTES:
            return None, "larger than the limit of 1 MiB"
        if not data.strip():
            return None, "empty"
        try:
            return data.decode(), ""
        except UnicodeDecodeError as error:
            return None, f"not UTF-8 text (byte {error.start})"


def _driver(stages: list[Any], *, resume: bool) -> str | None:
    try:
        converted = msgspec.convert(stages, list[Stage])
    except msgspec.ValidationError:
        return None  # `task_faults` reports it
    return driver(converted, resume=resume)
