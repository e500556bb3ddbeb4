"""What can go wrong for a caller of Rota, as types to catch. Each message is a sentence for its reader.

Errors with `document` came from a server and carry its RFC 9457 problem as it was sent; `TaskFailed` and its
subclasses are about the task itself, not about talking to Rota. Nothing here prints or decides on retries.
"""

from __future__ import annotations

import msgspec


class FieldFault(msgspec.Struct, frozen=True):
    """One thing wrong with a request: where (JSON pointer), what kind, what would be right."""

    pointer: str = ""
    code: str = ""
    detail: str = ""


class RotaError(Exception):
    """Anything Rota can raise. `document` is the server's problem document, empty when there was none."""

    def __init__(self, message: str, *, document: bytes = b"") -> None:
        super().__init__(message)
        self.document = document


class ConfigurationError(RotaError):
    """No server is named, or the profile file cannot be used. The message names the file and the line."""


class ManifestFault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with a manifest. Line and column count from 1; line 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0
    path: str = ""  # tasks.train.memory
    code: str = ""
    detail: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        text = f"{place}: {self.path}: {self.detail}" if self.path else f"{place}: {self.detail}"
        return " ".join(text.split())  # one line, whatever a name may hold


class ManifestError(RotaError):
    """A manifest that can't be sent: every fault of it, a line each."""

    def __init__(self, faults: tuple[ManifestFault, ...]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


class Refused(RotaError):
    """The server understood and said no. `slug` is stable: match on it, not on the text."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        slug: str,
        faults: tuple[FieldFault, ...] = (),
        document: bytes = b"",
    ) -> None:
        super().__init__(message, document=document)
        self.status = status
        self.slug = slug
        self.faults = faults


class ManifestRefused(Refused):
    """The server said no to a manifest; `placed` are its faults where they stand in the file."""

    def __init__(self, refusal: Refused, placed: tuple[ManifestFault, ...]) -> None:
        super().__init__(
            "\n".join(map(str, placed)) or str(refusal),
            status=refusal.status,
            slug=refusal.slug,
            faults=refusal.faults,
            document=refusal.document,
        )
        self.placed = placed


class NotFound(Refused):
    """There is no such task, artifact, plan or token, or it belongs to someone else."""


class Unauthorized(Refused):
    """No key, or one the server does not accept."""


class LimitExceeded(Refused):
    """The plan's limit is reached. Try again after `retry_after` seconds, when the server gave them."""

    retry_after: float | None = None


class ServerFault(RotaError):
    """The server failed while answering (HTTP 500), or answered something that is not Rota's."""


class Unreachable(RotaError):
    """No answer from the server, or only "not available right now".

    `sent` is False when the request cannot have reached a server: then repeating it is always safe.
    """

    def __init__(self, message: str, *, sent: bool, retry_after: float | None = None, document: bytes = b"") -> None:
        super().__init__(message, document=document)
        self.sent = sent
        self.retry_after = retry_after


class WaitTimeout(RotaError):
    """The time the caller gave is up; the tasks in `task_ids` go on."""

    def __init__(self, message: str, *, task_ids: tuple[int, ...]) -> None:
        super().__init__(message)
        self.task_ids = task_ids


class TaskFailed(RotaError):
    """The task ended, but not `done`. `type`, `message` and `traceback` are its own words, if it had any."""

    def __init__(
        self,
        sentence: str,
        *,
        task_id: int,
        state: str,
        type: str | None = None,
        message: str | None = None,
        traceback: str | None = None,
        exit_code: int | None = None,
    ) -> None:
        super().__init__(sentence)
        self.task_id = task_id
        self.state = state
        self.type = type
        self.message = message
        self.traceback = traceback
        self.exit_code = exit_code


class ResultMismatch(RotaError):
    """The task is done, but its result is not of the type it was to be read as."""


class TaskTimedOut(TaskFailed):
    """It ran longer than its execution cap."""


class TaskLost(TaskFailed):
    """Its node went away or its process crashed, and no attempts were left."""


class TaskCancelled(TaskFailed):
    """It was cancelled by its owner."""


class TaskSkipped(TaskFailed):
    """A task it depends on did not end as required."""


class TaskExpired(TaskFailed):
    """It was dropped at its start-by time, as its owner had chosen. Try again after `retry_after` seconds."""

    retry_after: float | None = None
