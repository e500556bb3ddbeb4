"""From a spawn order to the argv for the kernel: PATH, shebangs, interpreters. Runs in the keeper because it reads
files.

A program that can't be started is an expected answer: `NotStarted` carries a stable slug and the sentence for the user.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from rota.execute.keeper import programs
from rota.execute.keeper.orders import SpawnOrder
from rota.execute.keeper.spare_folders import SpareFolders
from rota.execute.linux import work_folder
from rota.model.request.interpreters import interpreter_by_suffix

_SHEBANG_BYTES = 512
_SHELL = "/bin/sh"
_HIDDEN = "in the sandbox; a folder of the node is visible there only as a mount that the task asks for"
ON_NODE, IN_ROOT = "on this node", "in the image"  # whose programs are started
DISK_FULL = "worker-disk-full"


class NotStarted(Exception):
    """It can't be run here; `slug` is stable, `message` names what is missing."""

    def __init__(self, slug: str, message: str) -> None:
        self.slug = slug
        self.message = one_line(message)
        super().__init__(self.message)


def one_line(text: str) -> str:
    """The text with control characters escaped: a program's name may hold line ends that would forge a log line."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


# Maps a path inside the sandbox to one on this machine: "" if nothing is there, None if we must not follow it.
Locate = Callable[[str], str | None]


def argv_of(
    order: SpawnOrder, folder: str, script_path: str, locate: Locate = str, *, system: str = ON_NODE
) -> list[str]:
    """The argv of an order.

    All paths are as the task will see them; `locate` maps them to this machine, and `system` says in a message whose
    system it is.
    """
    argv = unresolved(order, folder, script_path, locate, system=system)
    return command(argv, search=order.env.get("PATH", os.defpath), folder=folder, locate=locate, system=system)


def unresolved(
    order: SpawnOrder, folder: str, script_path: str, locate: Locate = str, *, system: str = ON_NODE
) -> list[str]:
    """The same with the program's name as given: an engine finds it in its image."""
    if order.script is not None:
        return script(script_path, order.interpreter, order.arguments, locate)
    if order.is_upload:
        return uploaded(script_path, order.interpreter, order.arguments, locate)
    if order.is_file:
        return file(os.path.join(folder, order.program), order.interpreter, order.arguments, locate, system=system)
    return [order.program, *order.arguments]


def make_folder(order: SpawnOrder, uid: int | None, spare_folders: SpareFolders | None = None) -> None:
    """Makes the folder and the script, unless the agent has prepared the folder: then its files belong to that user."""
    if spare_folders is not None and order.checkpoint and not order.prepared:
        spare_folders.provide(order.folder, uid)
    elif not order.prepared:
        work_folder.create(order.folder, uid)
        if order.checkpoint:
            work_folder.add_checkpoint(order.folder, uid)
    elif not os.path.isdir(order.folder):
        raise NotStarted("folder-lost", "its prepared folder is gone: the previous keeper died")
    if order.script is not None:
        work_folder.add_script(order.folder, order.script, uid)


def command(argv: list[str], *, search: str, folder: str, locate: Locate = str, system: str = ON_NODE) -> list[str]:
    """argv with its program resolved: by `search` (a PATH) unless it names a path itself."""
    program = argv[0]
    if "/" in program:
        seen = os.path.join(folder, program)
        _must_start(program, locate(seen), locate, _where(seen, folder, system))
        return argv
    found_unusable = ""
    for entry in search.split(":"):
        candidate = os.path.join(folder, entry or ".", program)
        located = locate(candidate)
        if located is None:
            continue
        if os.path.isfile(located):
            if os.access(located, os.X_OK):
                _must_start(candidate, located, locate, system)
                return [candidate, *argv[1:]]
            found_unusable = candidate
    if found_unusable:
        raise NotStarted("not-executable", f"{found_unusable} may not be executed")
    raise NotStarted("no-such-program", f"there is no program {program} {system}'s PATH ({search})")


def _must_start(program: str, located: str | None, locate: Locate, where: str) -> None:
    """Checked before the start: in a sandbox bubblewrap's own complaint would be taken for the task's output."""
    if located is None:
        return
    if not os.path.exists(located):
        raise NotStarted("no-such-program", f"there is no program {program} {where if located else _HIDDEN}")
    if os.path.isdir(located):
        raise NotStarted("not-executable", f"{program} is a folder")
    if not os.path.isfile(located):
        raise NotStarted("not-executable", f"{program} is not a file")
    if not os.access(located, os.X_OK):
        raise NotStarted("not-executable", f"{program} may not be executed")
    head = _head(located)
    _must_fit(program, located, head)
    interpreter = (_shebang_in(head) or [""])[0]
    if _is_missing(interpreter, locate):
        raise NotStarted("no-such-program", f"there is no {interpreter}, which {program} names in its first line")
    loader = programs.loader_of(head)
    if _is_missing(loader, locate):
        raise NotStarted("no-such-program", f"there is no {loader} {where}, which loads {program}")


def _is_missing(path: str, locate: Locate) -> bool:
    return path.startswith("/") and (located := locate(path)) is not None and not os.path.exists(located)


def _must_fit(name: str, located: str, head: bytes) -> None:
    """Otherwise a shell would read a program for another machine as a script."""
    if not programs.runs(head, _size(located), os.uname().machine) and not programs.is_registered(head):
        raise _not_ours(name)


def _not_ours(name: str) -> NotStarted:
    return NotStarted("not-executable", f"{name} is not a program for this machine ({os.uname().machine})")


def _where(seen: str, folder: str, system: str) -> str:
    return "in its work folder" if os.path.normpath(seen).startswith(folder + "/") else system


def script(path: str, interpreter: list[str] | None, arguments: list[str], locate: Locate = str) -> list[str]:
    """A script's text in a file: its shebang, else the requested interpreter, else sh."""
    return [*(_shebang(locate(path)) or interpreter or [_SHELL]), path, *arguments]


def uploaded(path: str, interpreter: list[str] | None, arguments: list[str], locate: Locate = str) -> list[str]:
    """A file of unknown kind: its shebang, else the requested interpreter, else by itself if it is a program."""
    located = locate(path) or path
    if interpreter is None:
        _must_fit("the uploaded file", located, _head(located))
        if _is_binary(located):
            return [path, *arguments]
    return script(path, interpreter, arguments, locate)


def file(
    path: str, interpreter: list[str] | None, arguments: list[str], locate: Locate = str, *, system: str = ON_NODE
) -> list[str]:
    """A file on the node: executed directly if it may be, else like a script.

    Text without a shebang is run by the program of its suffix: the kernel would hand it to a shell.
    """
    located = locate(path)
    if located is None:
        return [*(interpreter or ()), path, *arguments]
    if not os.path.exists(located):
        raise NotStarted("no-such-program", f"there is no file {path} {system if located else _HIDDEN}")
    if os.path.isdir(located):
        raise NotStarted("not-executable", f"{path} is a folder")
    if interpreter is None and _shebang(located) is None and not _is_binary(located):
        interpreter = interpreter_by_suffix(path)
    if os.access(located, os.X_OK) and (interpreter is None or _is_binary(located)):
        return [path, *arguments]
    if not os.access(located, os.R_OK):
        raise NotStarted("not-executable", f"{path} may not be read or executed")
    if interpreter is None:
        _must_fit(path, located, _head(located))
    return script(path, interpreter, arguments, locate)


def through_shell(argv: list[str]) -> list[str]:
    """As execvp does with a text file without a shebang. OSError if it is not text."""
    if not programs.is_for_shells(_head(argv[0])):
        raise OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC), argv[0])
    return [_SHELL, *argv]


def refusal(error: OSError | ValueError, argv: list[str]) -> NotStarted:
    """A failed start as a message."""
    program = argv[0]
    if not isinstance(error, OSError):
        return NotStarted("bad-argument", f"{program} was not started: {error}")
    if error.errno == errno.ENOENT:
        missing = (_shebang(program) or [program])[0] if os.path.exists(program) else program
        return NotStarted("no-such-program", f"there is no program {missing} on this node")
    if error.errno == errno.ENOEXEC:
        return _not_ours(program)
    if error.errno in (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ELOOP):
        return NotStarted("not-executable", f"{program} may not be executed: {error.strerror}")
    if error.errno == errno.E2BIG:
        return NotStarted("arguments-too-long", f"the arguments and environment of {program} are too long")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NotStarted(DISK_FULL, f"the node's disk is full: {error.filename or program}")
    return NotStarted("not-started", f"{program} was not started: {error.strerror}")


def _shebang(path: str | None) -> list[str] | None:
    return None if path is None else _shebang_in(_head(path))


def _shebang_in(head: bytes) -> list[str] | None:
    if not head.startswith(b"#!"):
        return None
    # As the kernel does: the interpreter, then everything else on the line as one argument.
    words = os.fsdecode(head[2:_SHEBANG_BYTES].partition(b"\n")[0]).strip().split(None, 1)
    return words or None


def _is_binary(path: str) -> bool:
    return not os.access(path, os.R_OK) or not programs.is_for_shells(_head(path))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _head(path: str) -> bytes:
    """The beginning of a file; b"" if it can't be read. A pipe or a device must not block the keeper."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, programs.HEAD_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)
