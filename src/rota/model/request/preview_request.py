"""The requests for previews: those of submissions, and the local files that would be uploaded first."""

from __future__ import annotations

import msgspec

from rota.model.request.task_request import BatchRequest, TaskRequest


class PlannedUpload(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A file that is not sent: its digest in 64 hexadecimal digits, its size, and the name that it would get."""

    sha256: str
    size_bytes: int
    name: str = ""


class PreviewTask(TaskRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One task, or an array of it."""

    uploads: list[PlannedUpload] = msgspec.field(default_factory=list)

    def request(self) -> TaskRequest:
        return TaskRequest(**{name: getattr(self, name) for name in TaskRequest.__struct_fields__})


class PreviewBatch(BatchRequest, kw_only=True, forbid_unknown_fields=True):
    uploads: list[PlannedUpload] = msgspec.field(default_factory=list)
