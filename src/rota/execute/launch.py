"""From what a task asked to run to the argv the kernel gets: PATH, shebangs, interpreters and their
absence.

Runs in the keeper, because it looks at files. A program that can't be started is an expected answer with a
name, not an exception that travels: `NotStarted` carries the slug and the sentence a person will read.
Standard library only.
"""

from __future__ import annotations

import errno
import os

_SHEBANG_BYTES = 512
_SHELL = "/bin/sh"


class NotStarted(Exception):
    """It can't be run here; `slug` is stable, `message` names what is missing."""

    def __init__(self, slug: str, message: str) -> None:
        super().__init__(message)
        self.slug = slug
        self.message = message


def argv_of(what: dict[str, object], folder: str, script_path: str) -> list[str]:
    """The argv for a spawn order (`keeper_link.Spawn`, as JSON)."""
    program = str(what["program"])
    arguments: list[str] = what["arguments"]  # type: ignore[assignment]
    interpreter: list[str] | None = what["interpreter"]  # type: ignore[assignment]
    env: dict[str, str] = what["env"]  # type: ignore[assignment]
    if what["script"] is not None:
        argv = script(script_path, interpreter, arguments)
    elif what["is_file"]:
        argv = file(os.path.join(folder, program), interpreter, arguments)
    else:
        argv = [program, *arguments]
    return command(argv, search=env.get("PATH", os.defpath), folder=folder)


def command(argv: list[str], *, search: str, folder: str) -> list[str]:
    """argv with its program resolved: by `search` (a PATH) unless it names a path itself."""
    program = argv[0]
    if "/" in program:
        return argv
    found_unusable = ""
    for place in search.split(":"):
        candidate = os.path.join(folder, place or ".", program)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return [candidate, *argv[1:]]
        if os.path.isfile(candidate):
            found_unusable = candidate
    if found_unusable:
        raise NotStarted("not-executable", f"{found_unusable} may not be executed")
    raise NotStarted("no-such-program", f"there is no program {program} on this node's PATH ({search})")


def script(path: str, interpreter: list[str] | None, arguments: list[str]) -> list[str]:
    """A script's text in a file: its shebang, else the interpreter asked for, else sh."""
    return [*(_shebang(path) or interpreter or [_SHELL]), path, *arguments]


def file(path: str, interpreter: list[str] | None, arguments: list[str]) -> list[str]:
    """A file on the node: executed directly if it may be, else like a script."""
    if not os.path.exists(path):
        raise NotStarted("no-such-program", f"there is no file {path} on this node")
    if os.path.isdir(path):
        raise NotStarted("not-executable", f"{path} is a folder")
    if os.access(path, os.X_OK) and (interpreter is None or _is_binary(path)):
        return [path, *arguments]
    if not os.access(path, os.R_OK):
        raise NotStarted("not-executable", f"{path} may not be read or executed")
    return script(path, interpreter, arguments)


def through_shell(argv: list[str]) -> list[str]:
    """What execvp does with a text file that has no shebang."""
    return [_SHELL, *argv]


def refusal(error: OSError | ValueError, argv: list[str]) -> NotStarted:
    """The failed start in words."""
    program = argv[0]
    if not isinstance(error, OSError):
        return NotStarted("bad-argument", f"{program} was not started: {error}")
    if error.errno == errno.ENOENT:
        missing = (_shebang(program) or [program])[0] if os.path.exists(program) else program
        return NotStarted("no-such-program", f"there is no program {missing} on this node")
    if error.errno in (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOEXEC, errno.ELOOP):
        return NotStarted("not-executable", f"{program} may not be executed: {error.strerror}")
    if error.errno == errno.E2BIG:
        return NotStarted("arguments-too-long", f"the arguments and environment of {program} are too long")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NotStarted("no-space", f"the node's disk is full: {error.filename or program}")
    return NotStarted("not-started", f"{program} was not started: {error.strerror}")


def _shebang(path: str) -> list[str] | None:
    try:
        with open(path, "rb") as file:
            head = file.read(_SHEBANG_BYTES)
    except OSError:
        return None
    if not head.startswith(b"#!"):
        return None
    # As the kernel does: the interpreter, then everything else on the line as one argument.
    words = os.fsdecode(head[2:].partition(b"\n")[0]).strip().split(None, 1)
    return words or None


def _is_binary(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return True
