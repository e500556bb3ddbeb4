"""What a server's refusal names, in the words of the command line: `--cpu` for the field `/task/cpu`.

Only an option that was typed takes the place of a field: what came from a file, a function or a profile keeps its name.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.answers.problems import FieldFault

# Fields whose option has another name.
_OPTIONS = {
    "ancestors_of": ("--before",),
    "delay": ("--in",),
    "descendants_of": ("--behind",),
    "not_before": ("--at", "--in"),
    "on_late": ("--expire",),
    "until": ("--until", "--older-than"),
    "zone": ("--tz",),
}


def typed(fault: FieldFault, arguments: Sequence[str]) -> str:
    """The fault as one sentence, which begins with the option that was typed for its field."""
    if not fault.pointer:
        return fault.detail
    words = list(arguments)
    words = words[: words.index("--")] if "--" in words else words
    given = {word.partition("=")[0] for word in words if word.startswith("-")}
    for field in reversed(fault.pointer.strip("/").split("/")):
        for option in (f"--{field.replace('_', '-')}", *_OPTIONS.get(field, ())):
            if option in given:
                said = fault.detail.removeprefix(f"{field} ")
                return f"{option}: {fault.detail}" if said == fault.detail else f"{option} {said}"
    return f"{fault.pointer}: {fault.detail}"
