"""Settings of one process: read once at start, passed down, never looked up again.

Flags win over `ROTA_*` environment variables, those over `rota.toml`. `Timings` holds every duration that safety or
liveness depends on in one place, because their *ratios* matter: the test profile scales all of them together.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path


class SettingsError(ValueError):
    """A setting that can't be used; the message names it and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    lease_seconds: float = 10.0  # a leader's lease, on the database's clock
    renew_seconds: float = 3.0
    trust_seconds: float = 8.0  # a leader acts only this long after *sending* its last confirmed renewal
    heartbeat_seconds: float = 5.0  # agents and servers
    grace_short_seconds: float = 30.0  # re-dispatch after a silent node, caps up to `short_cap_seconds`
    grace_long_seconds: float = 180.0
    short_cap_seconds: float = 300.0
    fence_margin_seconds: float = 10.0  # an agent's own kill is complete this long before re-dispatch
    poll_seconds: float = 1.0  # the slow poll: everything still works with every hint lost
    backoff_limit_scale: float = 1.0

    def scaled(self, factor: float) -> Timings:
        names = [f.name for f in fields(self) if f.name not in ("short_cap_seconds", "backoff_limit_scale")]
        return replace(self, **{name: getattr(self, name) * factor for name in names})

    def grace_ms(self, cap_ms: int) -> int:
        short = cap_ms <= self.short_cap_seconds * 1000
        return int((self.grace_short_seconds if short else self.grace_long_seconds) * 1000)

    def fence_ms(self, grace_ms: int) -> int:
        return grace_ms - int(self.fence_margin_seconds * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    database: str
    host: str = "127.0.0.1"
    port: int = 7070
    url: str = ""  # how other machines reach this node; derived from host and port unless given
    name: str = ""
    roles: tuple[str, ...] = ("api", "leader")
    database_connections: int = 10
    ready_limit: int = 8_000  # tasks a leader holds in memory
    log_limit_bytes: int = 1024 * 1024  # output kept per attempt
    log_inline_bytes: int = 256 * 1024  # output of an attempt that is kept in the database; more is moved to `objects`
    result_limit_bytes: int = 256 * 1024
    body_limit_bytes: int = 32 * 1024 * 1024
    idempotency_hours: int = 24
    secrets_key: str = ""  # path of the file with the master keys; without it there are no secrets
    objects: str = ""  # where artifacts are kept: a folder all servers share, or s3://…, gs://…, az://…; "": nowhere
    objects_options: Mapping[str, str] = field(
        default_factory=dict, repr=False
    )  # credentials, unless the environment's
    artifact_limit_bytes: int = 1024 * 1024 * 1024
    artifact_days: int = 0  # how long artifacts are kept; 0: for ever
    webhooks_private: bool = False  # webhooks may go to private addresses and any port
    check_transitions: bool = False  # the transition trigger: tests only, 2.5 µs a row
    timings: Timings = field(default_factory=Timings)

    @property
    def advertised_url(self) -> str:
        return self.url or f"http://{self.host}:{self.port}"


def timings_from_environment() -> Timings:
    text = os.environ.get("ROTA_TIME_SCALE")
    if text is None:
        return Timings()
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0.01 <= factor <= 10:
        raise SettingsError(f"ROTA_TIME_SCALE is {text!r}; it must be a number from 0.01 to 10")
    return Timings().scaled(factor)


def read_file(path: Path | None) -> dict[str, object]:
    """`rota.toml` as flat names. An absent default file is fine; a named one must exist and parse."""
    target = path or Path("rota.toml")
    if path is None and not target.exists():
        return {}
    try:
        return dict(tomllib.loads(target.read_text()))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{target}: {error}") from error
    except OSError as error:
        raise SettingsError(f"{target}: {error.strerror}") from error


def object_options(file: dict[str, object]) -> dict[str, str]:
    """`[objects_options]` of `rota.toml`: names as the object store's own documentation has them, values as text."""
    options = file.get("objects_options", {})
    if not isinstance(options, dict) or not all(isinstance(value, str | bool) for value in options.values()):
        raise SettingsError("objects_options in rota.toml is a table of names and texts")
    return {name: value if isinstance(value, str) else str(value).lower() for name, value in options.items()}


def choose(name: str, flag: object, file: dict[str, object], default: object) -> object:
    """One setting by precedence: flag, environment, file, default."""
    if flag is not None:
        return flag
    return os.environ.get(f"ROTA_{name.upper()}", file.get(name, default))
