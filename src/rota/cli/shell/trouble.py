"""Turns an error into an exit code and one line (or one JSON document) on stderr.

Only `report` writes. Codes: 1 the task failed, 2 usage, 3 not found, 4 refused, 5 server unreachable, 6 wait timed
out, 75 the task expired (try again later). `rota run` exits with 125 for all but usage and expiry, because any other
code could be the task's own.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence

from typer import TyperException

from rota import running_task
from rota.cli.shell.extras import missing_extra
from rota.cli.shell.reasons import reason_of
from rota.cli.shell.suggestions import commands_like, options_like, sentence
from rota.cli.shell.terminal import escape
from rota.cli.shell.typed_options import typed
from rota.client import errors
from rota.client.errors import ManifestFault
from rota.model.units import duration_text

USAGE = 2
TRY_LATER = 75  # EX_TEMPFAIL
OWN_TROUBLE = 125
_UNKNOWN_COMMAND = re.compile(r"No such command '(.*?)'\.", re.DOTALL)
_QUOTED_NAME = re.compile(r"(?<=^Invalid value for )'([^']*)':")
MOST_LINES = 20  # of faults; a machine reads all of them with -o json


def report(error: Exception, arguments: Sequence[str]) -> int:
    """Write the error to stderr and return the exit code."""
    lacking = missing_extra(error, arguments)
    error = error if lacking is None else errors.ConfigurationError(lacking)
    code = exit_code_of(error)
    if arguments[:1] == ["run"] and code not in (USAGE, TRY_LATER):
        code = OWN_TROUBLE
    sys.stdout.flush()
    text = document_of(error, code) if wants_json(arguments) else "\n".join(lines_of(error, arguments))
    sys.stderr.write(text + "\n")
    return code


def exit_code_of(error: Exception) -> int:
    if isinstance(error, TyperException | errors.ConfigurationError | errors.ManifestError):
        return USAGE
    if isinstance(error, errors.NotFound):
        return 3
    if isinstance(error, errors.Refused):
        return 4
    if isinstance(error, errors.Unreachable | errors.ServerFault):
        return 5
    if isinstance(error, errors.WaitTimeout):
        return 6
    if isinstance(error, errors.TaskExpired):
        return TRY_LATER
    return 1 if isinstance(error, errors.RotaError) else OWN_TROUBLE


def lines_of(error: Exception, arguments: Sequence[str] = ()) -> list[str]:
    """One line; of several faults one line each. Those of a manifest in a compiler's format, with their positions."""
    faults = [escape(str(fault)) for fault in _manifest_faults(error)]
    if faults:
        return _bounded(faults)
    if isinstance(error, errors.Refused) and error.faults and not isinstance(error, errors.LimitExceeded):
        lines = [typed(fault, arguments) for fault in error.faults]
        return [f"rota: {line}" for line in _bounded([escape(" ".join(line.split())) for line in lines])]
    return [f"rota: {line_of(error)}"]


def _bounded(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"and {more} more"]


def _manifest_faults(error: Exception) -> Sequence[ManifestFault]:
    if isinstance(error, errors.ManifestError):
        return error.faults
    return error.located if isinstance(error, errors.ManifestRefused) else ()


def line_of(error: Exception) -> str:
    """One line with control characters escaped, because parts may come from a task or from the command line."""
    if isinstance(error, TyperException):
        text = _usage(error)
    elif isinstance(error, errors.Unauthorized):
        text = f"{error} ({_how_to_sign_in(os.environ)})"
    elif isinstance(error, errors.LimitExceeded) and error.retry_after is not None:
        text = f"{error}; try again in {duration_text(1000 * math.ceil(error.retry_after))}"
    elif isinstance(error, errors.RotaError):
        text = str(error)
    else:
        text = f"an unexpected error occurred: {reason_of(error)}; ROTA_TRACEBACK=1 shows where"
    return escape(" ".join(text.split()))


def _how_to_sign_in(environment: Mapping[str, str]) -> str:
    if running_task.access() is not None:
        return "the key of a task is good while the task runs"
    if environment.get("ROTA_TOKEN"):
        return "the token in ROTA_TOKEN is not good there: unset it and run `rota login`, or set another"
    return "run `rota login`, or set ROTA_TOKEN"


def document_of(error: Exception, code: int) -> str:
    """The server's problem document, or one of the same form."""
    sent: bytes = getattr(error, "document", b"")
    if sent:
        return sent.decode(errors="replace")
    slug = {2: "usage", 5: "unreachable", 6: "wait-timeout"}.get(exit_code_of(error), "client-error")
    problem: dict[str, object] = {
        "type": f"https://rota.dev/problems/{slug}",
        "title": slug,
        "detail": line_of(error),
        "exit_code": code,
    }
    faults = _manifest_faults(error)
    if faults:
        problem["detail"] = "; ".join(_bounded([str(fault) for fault in faults]))
        fields = ("file", "line", "column", "path", "code", "detail")
        problem["errors"] = [{name: getattr(fault, name) for name in fields} for fault in faults]
    return json.dumps(problem)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether the command line asks for JSON. Reads the words themselves, because parsing may have failed."""
    words = list(arguments)
    words = words[: words.index("--")] if "--" in words else words
    pairs = itertools.pairwise(words)
    joined = ("-ojson", "-o=json", "--output=json")
    return any(word in joined for word in words) or any(
        pair in (("-o", "json"), ("--output", "json")) for pair in pairs
    )


def _usage(error: TyperException) -> str:
    text = error.format_message()
    context = getattr(error, "ctx", None)
    if context is None:
        return _begun_small(text)
    text = _QUOTED_NAME.sub(r"\1:", text)  # as our own checks write it
    unknown_command = _UNKNOWN_COMMAND.match(text)
    if text.startswith("No such option: "):
        given = str(getattr(error, "option_name", ""))
        known = {name for one in context.command.params for name in one.opts}
        text = f"No such option: {given}" + sentence(options_like(given, known))
    elif unknown_command:
        given = unknown_command[1]
        near = commands_like(given, context.command.commands)
        text = f"No such command '{given}'" + sentence([f"'{name}'" for name in near])
    elif text == "Missing command.":
        text = f"Missing command: one of {', '.join(context.command.commands)}"
    return f"{_begun_small(text)} (see {context.command_path} --help)"


def _begun_small(text: str) -> str:
    """As part of a line that has begun; the name of an argument stays as it is in the help."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]
