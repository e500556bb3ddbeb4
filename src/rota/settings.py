"""The settings of one process: read once at start and passed down.

Flags win over `ROTA_*` environment variables, and these over `rota.toml`. `Timings` holds all durations that safety and
liveness depend on, because their *ratios* matter: tests scale all of them together.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from rota.keepalive import DEAD_SECONDS, Keepalive
from rota.model.accounts.oidc import OidcSettings

Network = IPv4Network | IPv6Network


class SettingsError(ValueError):
    """A setting is wrong; the message names it and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    lease_seconds: float = 10.0  # a leader's lease, on the database's clock
    renew_seconds: float = 3.0
    trust_seconds: float = 8.0  # a leader acts for this long after *sending* its last confirmed renewal
    heartbeat_seconds: float = 5.0  # of agents and servers
    grace_short_seconds: float = 30.0  # a silent node's attempts are given up, for caps up to `short_cap_seconds`
    grace_long_seconds: float = 180.0
    short_cap_seconds: float = 300.0
    fence_margin_seconds: float = 10.0  # an agent has ended its attempts this long before they are given up
    poll_seconds: float = 1.0  # finds everything even if every hint is lost
    dead_peer_seconds: float = DEAD_SECONDS  # a connection whose peer is silent for this long is dropped
    backoff_limit_scale: float = 1.0

    @property
    def silent_seconds(self) -> float:
        """A node or server node that was not heard for this long, three heartbeats, is silent."""
        return 3 * self.heartbeat_seconds

    @property
    def keepalive(self) -> Keepalive:
        return Keepalive.within(self.dead_peer_seconds)

    def scaled(self, factor: float) -> Timings:
        names = [f.name for f in fields(self) if f.name not in ("short_cap_seconds", "backoff_limit_scale")]
        return replace(self, **{name: getattr(self, name) * factor for name in names})

    def grace_ms(self, cap_ms: int) -> int:
        short = cap_ms <= self.short_cap_seconds * 1000
        return int((self.grace_short_seconds if short else self.grace_long_seconds) * 1000)

    def fence_ms(self, grace_ms: int) -> int:
        return grace_ms - int(self.fence_margin_seconds * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What one server node lets its HTTP clients use up before it knows who they are."""

    connections: int = 10_000
    connections_per_address: int = 1_000
    header_bytes: int = 32 * 1024  # of the address and all headers of a request
    header_seconds: float = 10.0  # until the head of a request is complete
    stall_seconds: float = 60.0  # a body or an answer that makes no progress for this long is ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    database: str
    host: str = "127.0.0.1"
    port: int = 7070
    url: str = ""  # the address for other machines; derived from host and port unless given
    public_url: str = ""  # the address that people's browsers use, if a proxy stands before this server
    tls_cert: str = ""  # path of the certificate and those between it and its authority; "": no TLS
    tls_key: str = ""  # path of its private key
    insecure_http: bool = False  # tokens may travel in clear between machines
    trusted_proxies: tuple[Network, ...] = ()  # whose word about a client's address is taken
    name: str = ""
    roles: tuple[str, ...] = ("api", "leader")
    database_connections: int = 10
    ready_limit: int = 8_000  # ready tasks in a leader's memory
    log_limit_bytes: int = 1024 * 1024  # output kept of an attempt whose task asks for nothing
    log_inline_bytes: int = 256 * 1024  # output per attempt kept in the database; more is moved to `objects`
    result_limit_bytes: int = 256 * 1024
    body_limit_bytes: int = 32 * 1024 * 1024
    idempotency_hours: int = 24
    secrets_key: str = ""  # path of the file with the master keys; "": no secrets
    objects: str = ""  # the object store: a folder that all servers share, or s3://…, gs://…, az://…; "": none
    # Credentials of the object store, unless they are in the environment.
    objects_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    artifact_limit_bytes: int = 1024 * 1024 * 1024
    growth_limit: int = 10_000  # tasks that running tasks may submit into one graph, with their keys
    artifact_days: int = 0  # artifacts are kept for this long; 0: for ever
    oidc: OidcSettings | None = None  # sign-in through a provider; None: none
    webhooks_private: bool = False  # webhooks may go to private addresses and any port
    metrics_private: bool = False  # /metrics needs an operator's token
    check_transitions: bool = False  # a trigger checks state transitions; for tests, costs 2.5 µs a row
    timings: Timings = field(default_factory=Timings)
    http: HttpLimits = field(default_factory=HttpLimits)

    @property
    def advertised_url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.url or f"{'https' if self.tls_cert else 'http'}://{host}:{self.port}"


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
    """Reads `rota.toml`. The default file may be absent; a named one must exist."""
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
    """`[objects_options]` of `rota.toml`: names as in the object store's documentation, values as text."""
    options = file.get("objects_options", {})
    if not isinstance(options, dict) or not all(isinstance(value, str | bool) for value in options.values()):
        raise SettingsError("objects_options in rota.toml must be a table of names with text values")
    return {name: value if isinstance(value, str) else str(value).lower() for name, value in options.items()}


def choose(name: str, flag: object, file: dict[str, object], default: object) -> object:
    """One setting by precedence: flag, environment, file, default."""
    if flag is not None:
        return flag
    return os.environ.get(f"ROTA_{name.upper()}", file.get(name, default))
