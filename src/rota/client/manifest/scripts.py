"""The script of a task in a manifest: its text, its `commands` or `stages`, or the text of a file.

A file must be in the manifest's folder or below: a manifest from another source must not be able to send other files of
this machine. Stages become one shell script that runs them in order and reports each finished stage to the node, which
stores the checkpoint folder and publishes an event. With `resume` the script also records it in that folder, and the
next attempt begins at the stage that failed. The text of each stage is a quoted here-document, so the outer shell never
reads it.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rota.model.errors import Fault
from rota.model.request.interpreters import NoInterpreter, interpreter_of
from rota.model.stage import MOST_STAGES, STAGE_NAME

LARGEST_SCRIPT_BYTES = 1024 * 1024


_HEAD = """\
#!/bin/sh
# Made from the stages of the task; each runs in the work folder.
stopping=
trap 'stopping=yes' TERM
record="$ROTA_CHECKPOINT/.rota-stages"
is_done() { [ -f "$record" ] && grep -qxF -e "$1" "$record"; }
clock() {  # hundredths of a second since the machine started, which no change of its date touches
    read -r up _ < /proc/uptime && rest=${up#*.} && echo "$((${up%.*} * 100 + 1$rest - 100))"
}
finish() {  # number, of how many, name, when it began
    ran=$(($(clock) - ${4:-0}))
    mkdir -p "$ROTA_CHECKPOINT"
    if [ -n "$resume" ]; then printf '%s\\n' "$3" >> "$record"; fi
    printf 'stage %s/%s %s\\n' "$1" "$2" "$3" > .rota-stage-done && mv .rota-stage-done "$ROTA_CHECKPOINT/.save"
    while [ -e "$ROTA_CHECKPOINT/.save" ]; do sleep 0.1; done
    printf 'rota: stage %s/%s %s done after %s.%02d s\\n' "$1" "$2" "$3" "$((ran / 100))" "$((ran % 100))"
    printf '%s/%s stage %s/%s %s done\\n' "$1" "$2" "$1" "$2" "$3" >> "$ROTA_PROGRESS"
    if [ -n "$stopping" ]; then exit 143; fi
}
"""

_STAGE = """
if {skip}; then
    echo 'rota: stage {number}/{count} {name} was done before'
else
    cat > .rota-stage <<'{word}'
{text}
{word}
    chmod 700 .rota-stage
    began=$(clock)
    {run}
    code=$?
    if [ "$code" -ne 0 ]; then
        echo 'rota: stage {number}/{count} {name} failed; it ended with' "$code" >&2
        exit "$code"
    fi
    finish {number} {count} {name} "$began"
fi
"""


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
            return stages_script(task["stages"], resume=task.get("resume") is True), None
        if not isinstance(script, dict):
            return (script if isinstance(script, str) else None), None
        name = script.get("file")
        if not isinstance(name, str):
            return None, None  # `task_faults` reports it
        if name not in self._read:
            self._read[name] = self._file(name)
        text, fault = self._read[name]
        return text, None if not fault else Fault(f"{pointer}/script/file", "invalid-path", f"{name[:200]!r}: {fault}")

    def interpreter_of(self, task: Mapping[str, Any], text: str, pointer: str) -> tuple[list[str] | None, Fault | None]:
        """The program that runs a script's file, by its suffix; None: what the task, its `#!` line or sh says."""
        script = task.get("script")
        if not isinstance(script, dict) or task.get("interpreter") is not None:
            return None, None
        try:
            return interpreter_of(str(script["file"]), text), None
        except NoInterpreter as error:
            return None, Fault(f"{pointer}/script/file", "invalid-command", f"{error}, or give an interpreter")

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


class Stage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One step of a long task: a command, or the text of a script."""

    name: str
    command: list[str] | None = None
    script: str | None = None


def stage_faults(stages: list[dict[str, object]], pointer: str) -> list[Fault]:
    """The faults of all stages, each with the pointer of its stage."""
    if not 1 <= len(stages) <= MOST_STAGES:
        return [Fault(pointer, "out-of-range", f"a task has 1 to {MOST_STAGES} stages, not {len(stages)}")]
    seen: set[str] = set()
    faults: list[Fault] = []
    for index, stage in enumerate(stages):
        faults += [Fault(f"{pointer}/{index}", "out-of-range", detail) for detail in _stage_faults(stage, seen)]
        seen.add(str(stage["name"]))
    return faults


def _stage_faults(stage: dict[str, object], seen: set[str]) -> Iterator[str]:
    name = str(stage["name"])
    if not STAGE_NAME.fullmatch(name):
        yield f"{name[:80]!r} is not a stage's name: letters, digits, . - and _, at most 100"
    if name in seen:
        yield f"two stages are called {name}; each needs a name of its own"
    command, script = stage.get("command"), stage.get("script")
    if (command is None) == (script is None):
        yield f"stage {name[:80]} needs exactly one of command and script"
    if isinstance(command, list) and not (command and command[0]):
        yield f"stage {name[:80]}: the program is missing; write [program, argument, …]"
    if isinstance(script, str) and not script.strip():
        yield f"stage {name[:80]}: the script is empty"


def stages_script(given: list[Any], *, resume: bool) -> str | None:
    """The script that runs the stages; None: they are not stages, which `task_faults` reports."""
    try:
        stages = msgspec.convert(given, list[Stage])
    except msgspec.ValidationError:
        return None
    parts = [_HEAD, f"resume={'yes' if resume else ''}\n"]
    for number, stage in enumerate(stages, start=1):
        text = shlex.join(stage.command) if stage.command is not None else (stage.script or "").rstrip("\n")
        run = "./.rota-stage" if text.startswith("#!") else "sh -e ./.rota-stage"
        word = f"ROTA_{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:24]}"
        skip = f'[ -n "$resume" ] && is_done {stage.name}'
        parts.append(
            _STAGE.format(skip=skip, number=number, count=len(stages), name=stage.name, word=word, text=text, run=run)
        )
    return "".join(parts)
