"""The stages of a task in a manifest become one shell script that runs them in order.

The script reports each finished stage to the node, which stores the checkpoint folder and publishes an event. With
`resume` the script also records it in that folder, and the next attempt begins at the stage that failed. The text of
each stage is a quoted here-document, so the outer shell never reads it.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator

import msgspec

from rota.model.errors import Fault
from rota.model.stage import MOST_STAGES, STAGE_NAME

_HEAD = """\
#!/bin/sh
# Made from the stages of the task; each runs in the work folder.
stopping=
trap 'stopping=yes' TERM
record="$ROTA_CHECKPOINT/.rota-stages"
is_done() { [ -f "$record" ] && grep -qxF -e "$1" "$record"; }
finish() {  # number, of how many, name, when it began
    mkdir -p "$ROTA_CHECKPOINT"
    if [ -n "$resume" ]; then printf '%s\\n' "$3" >> "$record"; fi
    printf 'stage %s/%s %s\\n' "$1" "$2" "$3" > .rota-stage-done && mv .rota-stage-done "$ROTA_CHECKPOINT/.save"
    while [ -e "$ROTA_CHECKPOINT/.save" ]; do sleep 0.1; done
    printf 'rota: stage %s/%s %s done after %s s\\n' "$1" "$2" "$3" "$(($(date +%s) - $4))"
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
    began=$(date +%s)
    {run}
    code=$?
    if [ "$code" -ne 0 ]; then
        echo 'rota: stage {number}/{count} {name} failed; it ended with' "$code" >&2
        exit "$code"
    fi
    finish {number} {count} {name} "$began"
fi
"""


class Stage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One step of a long task: a command, or the text of a script."""

    name: str
    command: list[str] | None = None
    script: str | None = None


def faults_of(stages: list[dict[str, object]], pointer: str) -> list[Fault]:
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


def driver(stages: list[Stage], *, resume: bool) -> str:
    """The script that runs the stages."""
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
