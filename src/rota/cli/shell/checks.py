"""Checks of options, before any request is made. Each message names the option and says what would be right.

Every function takes the option's name and the text, and returns the value or raises `typer.BadParameter`,
which ends the command with exit code 2. The server checks again, because it knows plans and pools.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import typer

from rota.client.transport.local_files import is_named_pipe
from rota.model import units
from rota.model.artifact import digits_of, path_fault, reserved_fault
from rota.model.request.array import array_of
from rota.model.request.interpreters import NoInterpreter, interpreter_of
from rota.model.request.retry_rules import rule_of
from rota.model.request.rules import key_trouble

SCRIPT_LIMIT_BYTES = 1024 * 1024

_FUNCTION_PATH = re.compile(r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


def wrong(option: str, text: str) -> typer.BadParameter:
    return typer.BadParameter(text, param_hint=option)


def unusable(text: str) -> typer.TyperException:
    """A fault that is no single option's."""
    return typer.TyperException(text)


def all_right(faults: Iterable[tuple[str, str]]) -> None:
    """Raises an error with all faults, each an option (empty: no single one) and a text."""
    found = list(faults)
    if len(found) == 1 and found[0][0]:
        raise wrong(*found[0])
    if found:
        raise unusable("; ".join(f"{option}: {text}" if option else text for option, text in found))


def idempotency_key(key: str | None) -> str | None:
    trouble = None if key is None else key_trouble(key)
    if trouble is not None:
        raise wrong("--idempotency-key", trouble)
    return key


def given(**options: object) -> dict[str, object]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def some(command: str, changes: Mapping[str, object], what: str) -> None:
    if not changes:
        raise wrong(command, f"name at least one {what}")


def array(option: str, text: str | None) -> str | None:
    if text is not None:
        try:
            array_of(text)
        except ValueError as error:
            raise wrong(option, str(error)) from None
    return text


def retry_rules(option: str, texts: Sequence[str], *, retry: bool) -> list[str] | None:
    """Rules, separated by commas."""
    found = [one.strip() for text in texts for one in text.split(",")]
    for one in found:
        try:
            rule_of(one, retry=retry)
        except ValueError as error:
            raise wrong(option, str(error)) from None
    return found or None


def attachment(option: str, text: str | None) -> str | Path | None:
    """A local file, which will be uploaded, or the id of an artifact."""
    if text is None:
        return None
    path = Path(text)
    try:
        if path.is_dir():
            raise wrong(option, f"{text} is a folder; pack it first (tar cz {text} | rota upload -)")
        if path.exists() and not path.is_file():
            raise wrong(option, f"{text} is not a regular file; pipe its content to rota upload -")
        with path.open("rb"):
            return path
    except (FileNotFoundError, NotADirectoryError, ValueError):
        if digits_of(text) is None:
            raise wrong(option, f"{text[:80]!r} is neither a file here nor an artifact (sha256:…)") from None
        return text
    except OSError as error:
        raise wrong(option, f"{text[:80]} can't be read: {error.strerror}") from None


def named_attachments(option: str, texts: Sequence[str]) -> dict[str, str | Path] | None:
    """PATH=FILE: the path in the work folder, and the local file or artifact."""
    found: dict[str, str | Path] = {}
    for name, text in (pairs(option, texts) or {}).items():
        fault = path_fault(name) or reserved_fault(name)
        if fault is not None:
            raise wrong(option, f"{name[:80]!r}: {fault}")
        source = attachment(option, text)
        assert source is not None, "a pair has a value"
        found[name] = source
    return found or None


def size(option: str, text: str | None) -> str | None:
    return _in_units(option, text, units.bytes_of)


def cores(option: str, text: str | None) -> str | None:
    return _in_units(option, text, units.cpu_milli_of)


def amount(option: str, text: str | None) -> str | None:
    return _in_units(option, text, units.count_of)


def bandwidth(option: str, text: str | None) -> str | None:
    return _in_units(option, text, units.kbit_of)


def gpus(option: str, text: str | None) -> float | None:
    """Whole devices, or a fraction of one."""
    if text is None:
        return None
    try:
        whole, milli = units.gpus_of(text)
    except ValueError as error:
        raise wrong(option, str(error)) from None
    if whole < 0:
        raise wrong(option, f"{text!r} is below zero; write 0 or more")
    return milli / 1000 if milli else whole


def counts(option: str, texts: Sequence[str]) -> dict[str, int] | None:
    """`license=2`, several times."""
    found = pairs(option, texts) or {}
    for name, value in found.items():
        if not (value.isascii() and value.isdigit()):
            raise wrong(option, f"{name}={value} is not a whole number; write e.g. license=1")
    return {name: int(value) for name, value in found.items()} or None


def limit(option: str, text: str) -> int | None:
    """A whole number, or `none` for no limit."""
    if text == "none":
        return None
    if not (text.isascii() and text.isdigit()):
        raise wrong(option, f"{text!r} is not a whole number; write one, or none for no limit")
    return int(text)


def duration(option: str, text: str | None) -> str | None:
    return _in_units(option, text, units.milliseconds_of)


def one_of(option: str, text: str | None, choices: Iterable[str]) -> str | None:
    known = list(choices)
    if text is None or text in known:
        return text
    near = difflib.get_close_matches(text, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}"
    raise wrong(option, f"{text!r} is not known; {hint}")


def pair(option: str, text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise wrong(option, f"{text!r} is not a pair; write NAME=VALUE")
    return name, value


def pairs(option: str, texts: Sequence[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for text in texts:
        name, value = pair(option, text)
        if name in found:
            raise wrong(option, f"{name!r} is given twice")
        found[name] = value
    return found or None


def ids(option: str, texts: Sequence[str]) -> list[int] | None:
    """`7`, `7,8`, or the option several times."""
    words = [word.strip() for text in texts for word in text.split(",")]
    for word in words:
        if not (word.isascii() and word.isdigit() and int(word) > 0):
            raise wrong(option, f"{word!r} is not a task's id; write 7 or 7,8")
    return [int(word) for word in words] or None


def json_list(option: str, text: str | None) -> list[Any] | None:
    value = _json(option, text)
    if value is None or isinstance(value, list):
        return value
    raise wrong(option, """the value must be a JSON array, e.g. '[1, "two"]'""")


def json_object(option: str, text: str | None) -> dict[str, Any] | None:
    value = _json(option, text)
    if value is None or isinstance(value, dict):
        return value
    raise wrong(option, """the value must be a JSON object, e.g. '{"width": 800}'""")


def moment(option: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise wrong(option, f"{text!r} is not a time with a zone; write 2030-01-31T09:00:00Z or …+02:00")
    return parsed.isoformat()


def since(option: str, text: str | None) -> str | None:
    """A duration before now, by the server's clock, or a time."""
    for check in (duration, moment):
        try:
            return check(option, text)
        except typer.BadParameter:
            continue
    raise wrong(option, f"{text!r} is neither a duration like 10m nor a time like 2030-01-31T09:00:00Z")


def function_path(option: str, text: str | None) -> str | None:
    if text is None or _FUNCTION_PATH.match(text):
        return text
    raise wrong(option, f"{text!r} does not name a function; write package.module:function")


def script(option: str, file: str | None) -> str | None:
    """The text of a script file, or of stdin for `-`."""
    if file is None:
        return None
    shown = "standard input" if file == "-" else file
    if file != "-" and is_named_pipe(file):
        raise wrong(option, f"{file} is a named pipe; read it with {option} - < {file}")
    try:
        # One byte over the limit is enough to know, however large the file is.
        if file == "-":
            data = sys.stdin.buffer.read(SCRIPT_LIMIT_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(SCRIPT_LIMIT_BYTES + 1)
    except FileNotFoundError:
        raise wrong(option, f"{shown} does not exist") from None
    except IsADirectoryError:
        raise wrong(option, f"{shown} is a directory, not a file") from None
    except (OSError, ValueError) as error:
        raise wrong(option, f"{shown} can't be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > SCRIPT_LIMIT_BYTES:
        raise wrong(option, f"{shown} is larger than the limit of 1 MiB")
    if not data.strip():
        raise wrong(option, f"{shown} is empty")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise wrong(option, f"{shown} is not UTF-8 text (byte {error.start})") from None


def interpreter(option: str, file: str | None, text: str | None) -> list[str] | None:
    """The program that runs a script without a `#!` line, by the file's suffix; None: sh, or what the line names."""
    if file is None or text is None or file == "-":
        return None
    try:
        return interpreter_of(file, text)
    except NoInterpreter as error:
        raise wrong(option, str(error)) from None


def data_folder(option: str, folder: Path, *, make: bool = True) -> None:
    """Checks that the folder is writable; makes it if it does not exist."""
    there = folder.absolute()
    while not os.path.exists(there) and there != there.parent:
        there = there.parent
    if not os.path.isdir(there):
        raise wrong(option, f"{folder} can't be a folder, because {there} is a file")
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise wrong(option, f"{folder} can't be made: {error.strerror}; name a folder that you may write to") from None
    if not os.access(folder if os.path.exists(folder) else there, os.W_OK | os.X_OK):
        raise wrong(option, f"you may not write to {folder}; name a folder that you may write to")


def _in_units(option: str, text: str | None, convert: Any) -> str | None:
    # Only checked, not converted: the server gets the text as typed, and repeats it in messages.
    if text is None:
        return None
    try:
        amount = convert(text)
    except ValueError as error:
        raise wrong(option, str(error)) from None
    if amount < 0:
        raise wrong(option, f"{text!r} is below zero; write 0 or more")
    return text


def _json(option: str, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise wrong(option, f"the value is not JSON: {error}") from None


def word(where: str, name: str) -> str:
    """The name becomes part of a URL, so it must not contain a slash or a question mark."""
    if not name or not all(character.isalnum() or character in "-_." for character in name):
        raise wrong(where, f"{name!r} is not a name; names have letters, digits, hyphens, underscores and dots")
    return name
