"""Reads the spec of a run: the JSON that admission writes (`admit/judge/fields.py`, `spec_head_of`).

A separate decoder, because msgspec reads `Raw | None` as null only; here an absent `args` is an empty `Raw`. Cheap to
import: the warm children use it too.
"""

from __future__ import annotations

import msgspec

ABSENT = (b"", b"null")


class RunSpec(msgspec.Struct, kw_only=True):
    command: list[str] | None = None
    script: str | None = None
    path: str | None = None
    upload: str | None = None  # artifacts are named by their whole digest here
    interpreter: list[str] | None = None
    function: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")
    kwargs: msgspec.Raw = msgspec.Raw(b"")
    env: dict[str, str] = {}
    image: str = ""
    isolation: str = "none"
    cpu_limit: str = ""  # a `CpuLimit`; "": the usual one of its isolation
    network: bool = False
    processes: int = 0
    mounts: list[str] = []
    owner: str = ""  # the tenant's name, set if there are mounts
    files: dict[str, str] = {}
    archive: str | None = None
    outputs: list[str] = []
    scheduled: tuple[str, str, str] | None = None  # a run of a schedule: its instant, its interval's start and end

    index: int | None = None  # in an array

    @property
    def needs_preparation(self) -> bool:
        """Files must be put into its folder before it can start."""
        return self.upload is not None or self.archive is not None or bool(self.files)


class _LogFields(msgspec.Struct):
    log_limit: int = 0


_decode_log_fields = msgspec.json.Decoder(_LogFields).decode


def log_limit_of(spec: bytes, usual_bytes: int) -> int:
    """How much output is kept: what the spec says, else `usual_bytes`. Most specs are not decoded at all."""
    if b'"log_limit"' not in spec:
        return usual_bytes
    try:
        return _decode_log_fields(spec).log_limit or usual_bytes
    except (msgspec.DecodeError, UnicodeDecodeError):
        return usual_bytes  # nobody can read it: it will be refused


decode_spec = msgspec.json.Decoder(RunSpec).decode
_decode_positional = msgspec.json.Decoder(list[object]).decode
_decode_keywords = msgspec.json.Decoder(dict[str, object]).decode
_decode_words = msgspec.json.Decoder(list[str | int | float | bool | None]).decode


def schedule_environment(spec: RunSpec) -> dict[str, str]:
    """Variables of a run of a schedule."""
    if spec.scheduled is None:
        return {}
    names = ("ROTA_SCHEDULED_FOR", "ROTA_INTERVAL_START", "ROTA_INTERVAL_END")
    return dict(zip(names, spec.scheduled, strict=True))


def array_environment(spec: RunSpec) -> dict[str, str]:
    """Variables of a command or script of an array."""
    return {} if spec.index is None else {"ROTA_INDEX": str(spec.index)}


def positional(spec: RunSpec) -> list[object]:
    return [] if bytes(spec.args) in ABSENT else _decode_positional(spec.args)


def keywords(spec: RunSpec) -> dict[str, object]:
    return {} if bytes(spec.kwargs) in ABSENT else _decode_keywords(spec.kwargs)


def words(spec: RunSpec) -> list[str]:
    """`args` as words of a command line: text as it is, everything else as JSON."""
    if bytes(spec.args) in ABSENT:
        return []
    values = _decode_words(spec.args)
    return [value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in values]
