"""The errors of the SDK, as types to catch. Each message is a sentence for people.

An error with a `document` came from a server, which sent it as an RFC 9457 problem. `TaskFailed` and its subclasses are
about the task, not about the connection to Rota.
"""

from __future__ import annotations

import msgspec

from rota.model.answers.problems import FieldFault


class RotaError(Exception):
    """The base of all errors. `document` is the server's problem document, or empty."""

    def __init__(self, message: str, *, document: bytes = b"") -> None:
        super().__init__(message)
        self.document = document


class ConfigurationError(RotaError):
    """No server is named, or the profile file cannot be used. The message names the file."""


class ManifestFault(msgspec.Struct, frozen=True):
    """One fault of a manifest. Line and column count from 1; line 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0
    path: str = ""  # tasks.train.memory
    code: str = ""
    detail: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        text = f"{where}: {self.path}: {self.detail}" if self.path else f"{where}: {self.detail}"
        return " ".join(text.split())  # one line: a name may contain line breaks


class ManifestError(RotaError):
    """A manifest that can't be sent, with all of its faults, one on each line."""

    def __init__(self, faults: tuple[ManifestFault, ...]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


class Refused(RotaError):
    """The server refused the request. `slug` is stable: compare that, not the text."""

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
    """The server refused a manifest; `located` are its faults with their lines in the file."""

    def __init__(self, refusal: Refused, located: tuple[ManifestFault, ...]) -> None:
        super().__init__(
            "\n".join(map(str, located)) or str(refusal),
            status=refusal.status,
            slug=refusal.slug,
            faults=refusal.faults,
            document=refusal.document,
        )
        self.located = located


class NotFound(Refused):
    """There is no such task, artifact, plan or token, or it belongs to another tenant."""


class Unauthorized(Refused):
    """No token, or one that the server does not accept."""


class LimitExceeded(Refused):
    """A limit of the plan is reached. Try again after `retry_after` seconds, if the server gave them."""

    retry_after: float | None = None


class ServerFault(RotaError):
    """The server failed (HTTP 500), or its answer is not one of Rota."""


class Unreachable(RotaError):
    """The server did not answer, or is not available right now.

    `sent` is False when the request cannot have reached a server: then it is always safe to repeat it.
    """

    def __init__(self, message: str, *, sent: bool, retry_after: float | None = None, document: bytes = b"") -> None:
        super().__init__(message, document=document)
        self.sent = sent
        self.retry_after = retry_after


class WaitTimeout(RotaError):
    """The timeout has expired. The tasks in `task_ids` are not affected."""

    def __init__(self, message: str, *, task_ids: tuple[int, ...]) -> None:
        super().__init__(message)
        self.task_ids = task_ids


class TaskFailed(RotaError):
    """The task did not end `done`. `type`, `message` and `traceback` are those of its exception, if it had one."""

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
    """The task is done, but its result can't be converted to the requested type."""


class TaskTimedOut(TaskFailed):
    """It ran longer than its cap."""


class TaskLost(TaskFailed):
    """Its node was lost or its process crashed, and no attempts were left."""


class TaskCancelled(TaskFailed):
    """It was cancelled by its owner."""


class TaskSkipped(TaskFailed):
    """A task it depends on did not end as required."""


class TaskExpired(TaskFailed):
    """It could not start within its tolerance and was to be dropped. Try again after `retry_after` seconds."""

    retry_after: float | None = None
