"""Before a process starts: makes its folder and fills it with the task's files.

Artifacts come through `Transfers`, checked and mostly from this node's cache. Files are copied in through directory
descriptors and belong to the attempt's user. An archive is unpacked by a separate process in the same sandbox as the
task, within its grant: the agent never reads an untrusted archive. A preparation can be cancelled at any moment and
leaves nothing running; the caller removes its folder.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec

from rota.execute.attempts.attempt import Attempt, over_limit, stopped
from rota.execute.attempts.frozen import until_thawed
from rota.execute.attempts.sharing import limits_of
from rota.execute.files import unpack
from rota.execute.files.artifact_cache import copy_into
from rota.execute.files.checkpoint import Checkpoints, in_thread, owner_of
from rota.execute.files.transfer import TransferFailed, TransferRefused, Transfers
from rota.execute.keeper import launch, spawn
from rota.execute.keeper.folder_size import MOST_ENTRIES
from rota.execute.keeper_link import AwaitedEnd, End, KeeperLink, Lost, Refused, SandboxSpec, Spawn
from rota.execute.linux import work_folder
from rota.execute.linux.process_trees import MARK
from rota.execute.messages.spec import RunSpec
from rota.execute.sandbox.bubblewrap import WORK
from rota.model.artifact import RESERVED_NAMES
from rota.model.attempt import Outcome
from rota.model.isolation import Isolation
from rota.wire import Failure

_UNPACKER = "/run/rota-unpack.py"  # where the unpacking process sees our module
_ARCHIVE_DESCRIPTOR = 3
_MOST_UNPACKED_BYTES = 100 * 1024**3  # where the grant has no limit for disk space
_MOST_OUTPUT_BYTES = 4096


class NotPrepared(Exception):
    """The attempt can't start; `failure` says why."""

    def __init__(self, failure: Failure, outcome: Outcome = Outcome.REFUSED) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Limits for the content of an archive."""

    limit_bytes: int
    beside_bytes: int = 0  # part of the same grant, used by other files
    reserved: tuple[str, ...] = ()  # names that the archive may not have at its top
    is_the_grant: bool = False  # what is left of the attempt's disk space


class Preparer:
    """One for each agent."""

    def __init__(self, *, link: KeeperLink, transfers: Transfers, checkpoints: Checkpoints) -> None:
        self._link = link
        self._checkpoints = checkpoints
        self._transfers = transfers

    async def prepare(self, attempt: Attempt, spec: RunSpec, order: Spawn) -> Spawn:
        """Makes and fills the folder of `order`; returns the order to start then. Raises `NotPrepared`.

        Not before it thaws, if it is frozen meanwhile.
        """
        number = self._link.reserve()
        is_isolated = order.sandbox is not None or order.container_spec is not None
        uid = spawn.own_uid(number, os.path.dirname(order.folder)) if is_isolated else None
        order = msgspec.structs.replace(order, prepared=True, owner=number)
        artifacts = [(f"files/{path}", path, artifact) for path, artifact in spec.files.items()]
        if spec.upload is not None:
            artifacts.append(("upload", work_folder.SCRIPT_NAME, spec.upload))
        with ExitStack() as opened:
            # 1. Fetch everything.
            fetched = []
            for field, path, artifact in artifacts:
                descriptor = await self._fetch(attempt, field, artifact)
                opened.callback(os.close, descriptor)
                fetched.append((path, descriptor))
            size_bytes = sum(os.fstat(descriptor).st_size for _, descriptor in fetched)
            granted = order.limits.disk_bytes
            if granted and size_bytes > granted:
                raise NotPrepared(over_limit(attempt.grant, "disk-limit", size_bytes))
            # 2. Make the folder and unpack the archive, which needs an empty one.
            try:
                await in_thread(work_folder.create, order.folder, uid)
            except OSError as error:
                raise NotPrepared(_disk_trouble(error, "its folder")) from None
            if spec.archive is not None:
                archive = await self._fetch(attempt, "archive", spec.archive)
                opened.callback(os.close, archive)
                limit = granted - size_bytes if granted else _MOST_UNPACKED_BYTES
                bounds = _Bounds(limit, beside_bytes=size_bytes, reserved=RESERVED_NAMES, is_the_grant=bool(granted))
                await self._unpack(attempt, order, archive, bounds, "archive")
            # 3. Copy the files, never over one from the archive.
            await in_thread(_copy_all, order.folder, fetched, uid)
        # 4. Restore the checkpoint.
        await self._restore(attempt, order.folder, uid)
        await until_thawed(attempt)
        return order

    async def _restore(self, attempt: Attempt, folder: str, uid: int | None) -> None:
        try:
            await in_thread(work_folder.add_checkpoint, folder, uid)
            if attempt.run.attempt > 1:
                await self._checkpoints.restore(attempt, folder, uid, attempt.notes.append)
        except TransferFailed as failure:  # starting from the beginning would throw the checkpoint away
            raise NotPrepared(Failure("checkpoint-unavailable", str(failure)), Outcome.DISRUPTED) from None
        except OSError as error:
            raise NotPrepared(_disk_trouble(error, "its checkpoint")) from None

    async def _fetch(self, attempt: Attempt, field: str, artifact: str) -> int:
        try:
            return await self._transfers.fetch(owner_of(attempt), artifact)
        except (TransferRefused, TransferFailed) as error:
            raise NotPrepared(Failure("artifact-unavailable", f"{field}: {artifact}: {error}")) from None
        except OSError as error:
            raise NotPrepared(_disk_trouble(error, "the node's cache of artifacts")) from None

    async def unpack_package(self, attempt: Attempt, artifact: str, folder: str, *, limit_bytes: int) -> None:
        """Makes the folder and unpacks a function's package into it, as its tenant's; others may read it afterwards."""
        is_isolated = attempt.terms.process_key.isolation != Isolation.NONE
        number = self._link.reserve()
        uid = spawn.own_uid(number, os.path.dirname(folder)) if is_isolated else None
        archive = await self._fetch(attempt, "package", artifact)
        try:
            await in_thread(work_folder.create, folder, uid)
            terms = attempt.terms
            limits = limits_of(attempt.grant, terms.processes, terms.process_key.isolation, cpu_burst=terms.cpu_burst)
            order = Spawn(
                program="",
                arguments=[],
                env={},
                folder=folder,
                fence_ms=attempt.fence_ms,
                owner=number,
                limits=msgspec.structs.replace(limits, disk_bytes=limit_bytes),  # it is not in the attempt's folder
                sandbox=SandboxSpec() if is_isolated else None,
            )
            await self._unpack(
                attempt,
                order,
                archive,
                _Bounds(limit_bytes, is_the_grant=limit_bytes == attempt.grant.disk_bytes),
                "package",
            )
            await in_thread(os.chmod, folder, 0o755)  # the unpacking process is dead: this is still the folder we made
        except OSError as error:
            raise NotPrepared(_disk_trouble(error, "the folder of its package")) from None
        finally:
            os.close(archive)

    async def _unpack(self, attempt: Attempt, order: Spawn, archive: int, bounds: _Bounds, field: str) -> None:
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        over = AwaitedEnd()
        try:
            descriptors = [write, os.dup(write), os.dup(archive)]
            number = self._link.spawn(over, _unpacking(order, bounds), descriptors)
            end = await _until_over(self._link, number, over)
            lines = _last_lines(read)
        finally:
            os.close(read)
        _judge(attempt, end, lines, bounds, field)


def _unpacking(order: Spawn, bounds: _Bounds) -> Spawn:
    """Our unpacker with our interpreter, run as the task would be, without network or secrets."""
    python = os.path.realpath(sys.executable)
    seen, program, sandbox = order.folder, os.path.abspath(unpack.__file__), order.sandbox
    if sandbox is not None or order.container_spec is not None:  # an image need not have Python: a sandbox has ours
        prefix = os.path.realpath(sys.base_prefix)
        mounts = [(program, _UNPACKER, False)]
        if not prefix.startswith("/usr"):
            mounts.insert(0, (prefix, prefix, False))
        sandbox = SandboxSpec(mounts=tuple(mounts))
        seen, program = WORK, _UNPACKER
    words = ["-I", "-S", "-B", program, f"/dev/fd/{_ARCHIVE_DESCRIPTOR}", seen]
    words += [str(bounds.limit_bytes), str(MOST_ENTRIES), *bounds.reserved]
    return Spawn(
        program=python,
        arguments=words,
        env={"PATH": os.defpath, "LANG": "C.UTF-8", MARK: seen},
        folder=order.folder,
        fence_ms=order.fence_ms,
        limits=order.limits,
        sandbox=sandbox,
        prepared=True,
        owner=order.owner,
        keeps_folder=True,
    )


def _judge(attempt: Attempt, end: End, lines: list[str], bounds: _Bounds, field: str) -> None:
    if isinstance(end, Lost):
        raise NotPrepared(Failure("keeper-lost", "the keeper process of this node died"), Outcome.DISRUPTED)
    if isinstance(end, Refused):
        raise NotPrepared(Failure(end.slug, f"{field}: {end.message}"))
    if end.fenced:
        raise NotPrepared(stopped(attempt, Outcome.DISRUPTED), Outcome.DISRUPTED)
    if end.limit:
        raise NotPrepared(over_limit(attempt.grant, end.limit, end.used, processes=end.granted_processes))
    code = os.waitstatus_to_exitcode(end.status)
    sentence = lines[-1] if lines else ""
    if code == unpack.TOO_LARGE and bounds.is_the_grant:
        raise NotPrepared(over_limit(attempt.grant, "disk-limit", bounds.beside_bytes + _size(lines, bounds), field))
    if code in (unpack.REFUSED, unpack.TOO_LARGE):
        raise NotPrepared(Failure("bad-archive", f"{field}: {sentence or 'it was refused'}"))
    if code != 0:
        raise NotPrepared(Failure("not-unpacked", f"{field}: {sentence or f'unpacking it ended with {code}'}"))


def _size(lines: list[str], bounds: _Bounds) -> int:
    """The least size of the content as the unpacker printed it; not trusted, because it has read the archive."""
    size_text = lines[-2] if len(lines) > 1 else ""
    size_bytes = int(size_text) if size_text.isascii() and size_text.isdigit() and len(size_text) < 19 else 0
    return max(size_bytes, bounds.limit_bytes + 1)


async def _until_over(link: KeeperLink, number: int, over: AwaitedEnd) -> End:
    try:
        return await asyncio.shield(over.end)
    except asyncio.CancelledError:
        link.kill(number)
        await asyncio.wait({over.end})
        raise


def _last_lines(descriptor: int) -> list[str]:
    """The last two lines of the unpacker's output, printable: it is not trusted."""
    try:
        text = os.read(descriptor, _MOST_OUTPUT_BYTES).decode("utf-8", "replace")
    except BlockingIOError:
        return []
    lines = [line for line in text.splitlines() if line.strip()]
    return ["".join(character for character in line if character.isprintable())[:500] for line in lines[-2:]]


def _copy_all(folder: str, files: list[tuple[str, int]], uid: int | None) -> None:
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for path, descriptor in files:
            try:
                _copy(root, path, descriptor, uid)
            except FileExistsError:
                raise NotPrepared(Failure("bad-archive", f"archive: already has a file at {path}")) from None
            except OSError as error:
                raise NotPrepared(_disk_trouble(error, path)) from None
    finally:
        os.close(root)


def _copy(root: int, path: str, descriptor: int, uid: int | None) -> None:
    *folders, name = path.split("/")
    current = os.dup(root)
    try:
        for part in folders:
            made = _make_folder(current, part)
            following = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = following
            if made and uid is not None:
                os.fchown(current, uid, uid)
        copy_into(descriptor, current, name, executable=name == work_folder.SCRIPT_NAME, owner=uid)
    finally:
        os.close(current)


def _make_folder(parent: int, name: str) -> bool:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return False
    return True


def _disk_trouble(error: OSError, subject: str) -> Failure:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failure(launch.DISK_FULL, f"the node's disk is full: {subject}")
    return Failure("not-prepared", f"{subject}: {error.strerror}")
