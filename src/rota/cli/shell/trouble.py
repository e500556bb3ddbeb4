"""Turns an error into an exit code and one line (or one JSON document) on stderr.

Only `report` writes. Codes: 1 the task failed, 2 usage, 3 not found, 4 refused, 5 server unreachable, 6 wait timed
out, 75 the task expired (try again later). `rota run` exits with 125 for all but usage and expiry, because any other
code could be the task's own.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Sequence

from typer import TyperException

from rota.cli.shell.terminal import escape
from rota.client import errors
from rota.client.errors import ManifestFault
from rota.model.units import duration_text

USAGE = 2
TRY_LATER = 75  # EX_TEMPFAIL
OWN_TROUBLE = 125


def report(error: Exception, arguments: Sequence[str]) -> int:
    """Write the error to stderr and return the exit code."""
    code = exit_code_of(error)
    if arguments[:1] == ["run"] and code not in (USAGE, TRY_LATER):
        code = OWN_TROUBLE
    sys.stdout.flush()
    text = document_of(error, code) if wants_json(arguments) else "\n".join(lines_of(error))
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


def lines_of(error: Exception) -> list[str]:
    """One line; for a manifest, one line per fault in a compiler's format, so that editors find the positions."""
    faults = _manifest_faults(error)
    return [escape(str(fault)) for fault in faults] or [f"rota: {line_of(error)}"]


def _manifest_faults(error: Exception) -> Sequence[ManifestFault]:
    if isinstance(error, errors.ManifestError):
        return error.faults
    return error.located if isinstance(error, errors.ManifestRefused) else ()


def line_of(error: Exception) -> str:
    """One line with control characters escaped, because parts may come from a task or from the command line."""
    if isinstance(error, TyperException):
        text = _usage(error)
    elif isinstance(error, errors.Unauthorized):
        text = f"{error} (set ROTA_TOKEN, or use the profile that `rota up` writes)"
    elif isinstance(error, errors.LimitExceeded) and error.retry_after is not None:
        text = f"{error}; try again in {duration_text(1000 * math.ceil(error.retry_after))}"
    elif isinstance(error, errors.Refused) and len(error.faults) > 1:
        text = f"{error} (" + "; ".join(f"{fault.pointer}: {fault.detail}" for fault in error.faults) + ")"
    elif isinstance(error, errors.RotaError):
        text = str(error)
    else:
        text = f"an unexpected error occurred: {type(error).__name__}: {error} (ROTA_TRACEBACK=1 shows where)"
    return escape(" ".join(text.split()))


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
        first = lines_of(error)[0]
        problem["detail"] = first if len(faults) == 1 else f"{len(faults)} things are wrong; the first: {first}"
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
    near = getattr(error, "possibilities", None)
    if near:
        text = f"{error.message.rstrip('.')}. Did you mean {near[0]}?"
    context = getattr(error, "ctx", None)
    if text == "Missing command." and context is not None:
        text = f"Missing command: one of {', '.join(context.command.commands)}"
    help_hint = f" (see {context.command_path} --help)" if context is not None else ""
    return text[:1].lower() + text[1:] + help_hint
