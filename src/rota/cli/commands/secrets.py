"""`rota secret`: sets, lists and removes secrets; administrators rotate the master key.

A value comes from a hidden prompt, a pipe or a file, never from the command line, where `ps` and the shell's history
would show it.
"""

from __future__ import annotations

import getpass
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from rota.cli.shell import checks
from rota.cli.shell.connection import show
from rota.cli.shell.output import Format, Output
from rota.cli.tables.render import add_command, add_group, exact, table
from rota.client.calls import secret_calls
from rota.model.answers import secrets as documents
from rota.model.secret import MOST_VALUE_BYTES, name_trouble, value_trouble

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the secret and of its environment variable.")]


def add_to(app: typer.Typer) -> None:
    secret = add_group(app, "secret", "Manage secrets: values that tasks get and nobody reads back.")
    add_command(
        secret,
        "set",
        set_secret,
        "rota secret set API_KEY",
        "pass show shop/api | rota secret set API_KEY",
        "rota secret set TLS_KEY --file key.pem",
    )
    add_command(secret, "list", list_secrets, "rota secret list")
    add_command(secret, "remove", remove_secret, "rota secret remove API_KEY")
    add_command(secret, "rotate", rotate, "rota secret rotate")


def set_secret(
    name: _Name,
    misplaced: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Use the exact text of this file.")] = None,
    output_format: Output = Format.TABLE,
) -> None:
    """Set a secret. The value is prompted for, piped in, or read from --file."""
    if misplaced:  # the usual error message would repeat the value
        raise checks.wrong(
            "NAME", "a value is never given on the command line; type it when asked, pipe it in, or use --file"
        )
    trouble = name_trouble(name)
    if trouble is not None:
        raise checks.wrong("NAME", trouble)
    value = _from_file(file) if file is not None else _from_prompt(name) if sys.stdin.isatty() else _from_pipe()
    trouble = value_trouble(value)
    if trouble is not None:
        raise checks.wrong("--file" if file else "value", trouble)
    show(secret_calls.set_secret(name, value), output_format, lambda one: f"{one.name} is set (version {one.version})")


def _from_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _text("--file", file.read(MOST_VALUE_BYTES + 1))
    except OSError as error:
        raise checks.wrong("--file", f"{path} can't be read: {error.strerror}") from None


def _from_prompt(name: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)  # never show a value on the screen
        try:
            return getpass.getpass(f"Value of {name} (not shown): ")
        except getpass.GetPassWarning:
            raise checks.wrong("value", "this terminal can't hide what is typed; pipe it in or use --file") from None
        except EOFError:
            raise checks.wrong("value", "nothing was typed") from None


def _from_pipe() -> str:
    """All of stdin without the final newline, which `echo` adds."""
    text = _text("value", sys.stdin.buffer.read(MOST_VALUE_BYTES + 2))
    return text.removesuffix("\n").removesuffix("\r")


def _text(where: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        if len(data) > MOST_VALUE_BYTES:  # may cut a character
            raise checks.wrong(where, f"a value has 1 to {MOST_VALUE_BYTES} bytes") from None
        raise checks.wrong(where, "a value must be UTF-8 text; encode other bytes first, e.g. with base64") from None


def list_secrets(output_format: Output = Format.TABLE) -> None:
    """List your tenant's secrets: names, times and users, never values."""
    show(secret_calls.secrets(), output_format, _table)


def remove_secret(name: _Name, output_format: Output = Format.TABLE) -> None:
    """Remove a secret. Tasks that use it and have not started will fail to start."""
    show(secret_calls.remove_secret(name), output_format, lambda _: f"{name} is removed")


def rotate(output_format: Output = Format.TABLE) -> None:
    """Encrypt all secrets with the first master key, so that older keys can be removed (administrators)."""
    show(secret_calls.rotate(), output_format, _rotation)


def _table(answer: documents.SecretList) -> str:
    columns = ("NAME", "VERSION>", "CHANGED", "BY")
    rows = [(one.name, str(one.version), exact(one.changed_at), one.changed_by) for one in answer.secrets]
    return table(columns, rows, empty="no secrets: make one with rota secret set")


def _rotation(answer: documents.Rotation) -> str:
    lines = [f"{answer.rewrapped} encrypted again with key {answer.key}"]
    lines += [f"tenant {one.tenant}, {one.name}: not done: {one.reason}" for one in answer.failed]
    lines += [
        f"key {one.id} is in the file and no longer used: it can go"
        for one in answer.keys
        if one.known and not one.secrets and one.id != answer.key
    ]
    return "\n".join(lines)
