"""One function a field: what it means, or the fault it has. Pure; `validate` calls them in reading order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from rota.model.errors import FaultList
from rota.model.request import TaskRequest
from rota.model.resources import Resources, Shape
from rota.model.task import LANES, Kind, Lane, Upstream
from rota.model.tenant import Plan
from rota.model.units import bytes_of, cpu_milli_of, milliseconds_of

MOST_ARGUMENT_BYTES = 128 * 1024
MOST_ENVIRONMENT_BYTES = 128 * 1024
MOST_SCRIPT_BYTES = 1024 * 1024
MOST_TAGS = 50
LONGEST_NAME = 200
MOST_ATTEMPTS = 100
MOST_PRIORITY = 1_000_000
DEFAULT_BACKOFF_MS = 1_000
DEFAULT_BACKOFF_LIMIT_MS = 300_000
DEFAULT_TOLERANCE_MS = 3_600_000
LONGEST_TOLERANCE_MS = 366 * 86_400_000
LONGEST_DELAY = timedelta(days=3660)

_FUNCTION = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", re.ASCII)
_ENVIRONMENT_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$", re.ASCII)
_LABEL = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$", re.ASCII)
_RESERVED_ENVIRONMENT = re.compile(r"^(ROTA_|LD_|GCONV_PATH$|GLIBC_TUNABLES$)")
_BAD_NAME = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")


@dataclass(frozen=True, slots=True)
class Tier:
    name: str
    cpu_milli: int
    memory_bytes: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """What admission knows of a pool: whether a demand could ever be met there."""

    id: int
    name: str
    elastic: bool
    nodes: tuple[tuple[Resources, Mapping[str, str]], ...]  # capacity and labels of present nodes


@dataclass(frozen=True, slots=True)
class World:
    """What a request is judged against."""

    now: datetime  # the database's
    plan: Plan
    tiers: Mapping[str, Tier]
    pools: Mapping[str, PoolFacts]


def kind_of(request: TaskRequest, faults: FaultList) -> Kind | None:
    named = [n for n in ("command", "script", "path", "function") if getattr(request, n) is not None]
    if len(named) != 1:
        said = "none is given" if not named else f"{' and '.join(named)} are given"
        faults.add("", "invalid-command", f"exactly one of command, script, path, function says what to run; {said}")
        return None
    if request.interpreter is not None and named[0] not in ("script", "path"):
        faults.add("interpreter", "invalid-command", "an interpreter goes with script or path only")
    for field in ("command", "interpreter"):
        words: list[str] | None = getattr(request, field)
        if words is not None:
            _argv(field, words, faults)
    if request.script is not None and not request.script.strip():
        faults.add("script", "invalid-command", "the script is empty")
    if request.script is not None and len(request.script.encode()) > MOST_SCRIPT_BYTES:
        faults.add("script", "invalid-command", f"the script is larger than {MOST_SCRIPT_BYTES} bytes; upload it")
    if request.path is not None and (not request.path.startswith("/") or "\0" in request.path):
        faults.add("path", "invalid-path", f"{request.path[:80]!r} is not an absolute path")
    if request.function is not None:
        if not _FUNCTION.match(request.function) or len(request.function) > 500:
            faults.add("function", "unknown-function", f"{request.function[:80]!r} is not package.module:name")
        return Kind.FUNCTION
    return Kind.COMMAND if request.command is not None else Kind.SCRIPT


def _argv(field: str, words: list[str], faults: FaultList) -> None:
    if not words or not words[0]:
        faults.add(field, "invalid-command", "a program's name is missing")
    if any("\0" in word for word in words):
        faults.add(field, "invalid-command", "an argument contains NUL")
    if sum(len(word.encode()) + 1 for word in words) > MOST_ARGUMENT_BYTES:
        faults.add(field, "invalid-command", f"the arguments are larger than {MOST_ARGUMENT_BYTES} bytes")


def name_of(request: TaskRequest, kind: Kind | None, faults: FaultList) -> str:
    if request.name is not None:
        if not request.name.strip() or len(request.name) > LONGEST_NAME or _BAD_NAME.search(request.name):
            faults.add("name", "invalid-name",
                       f"a name has 1 to {LONGEST_NAME} characters, no control or direction marks")  # fmt: skip
        return request.name
    if request.function is not None:
        return request.function.rpartition(":")[2][:LONGEST_NAME]
    if request.command:
        return _BAD_NAME.sub("?", request.command[0].rpartition("/")[2])[:LONGEST_NAME] or "command"
    if request.path:
        return _BAD_NAME.sub("?", request.path.rpartition("/")[2])[:LONGEST_NAME] or "script"
    return "script"


def check_environment(request: TaskRequest, faults: FaultList) -> None:
    size = 0
    for name, value in request.env.items():
        size += len(name.encode()) + len(value.encode()) + 2
        pointer = f"env/{name[:80].replace('~', '~0').replace('/', '~1')}"
        if not _ENVIRONMENT_NAME.match(name):
            faults.add(
                pointer,
                "reserved-env",
                f"{name[:80]!r} is not a variable's name: letters, digits, underscore",
            )
        elif _RESERVED_ENVIRONMENT.match(name):
            faults.add(pointer, "reserved-env", f"{name} is reserved (ROTA_…, LD_… and the loader's own)")
        if "\0" in value:
            faults.add(pointer, "invalid-character", f"the value of {name[:80]} contains NUL")
    if size > MOST_ENVIRONMENT_BYTES:
        faults.add("env", "invalid-command", f"the environment is larger than {MOST_ENVIRONMENT_BYTES} bytes")


def resources_of(request: TaskRequest, world: World, faults: FaultList) -> tuple[str, Resources]:
    name = request.tier or "basic"
    tier = world.tiers.get(name)
    if tier is None:
        faults.add(
            "tier",
            "unknown-tier",
            f"there is no tier {name[:40]!r}; there are {', '.join(sorted(world.tiers))}",
        )
        tier = Tier(name, 1000, 0, 0)
    elif name not in world.plan.tiers:
        faults.add("tier", "tier-not-allowed",
                   f"plan {world.plan.name} has the tiers {', '.join(world.plan.tiers)}, not {name}")  # fmt: skip
    cpu = _amount("cpu", request.cpu, cpu_milli_of, 1, 10_000_000, "from 0.001 to 10,000 cores", faults)
    memory = _amount("memory", request.memory, bytes_of, 1_000_000, 2**50, "from 1M to 1P", faults)
    disk = _amount("disk", request.disk, bytes_of, 0, 2**55, "from 0 to 32P", faults)
    for field, value, most in (("gpus", request.gpus, 1024), ("ports", request.ports, 100)):
        if value is not None and not 0 <= value <= most:
            faults.add(field, "out-of-range", f"{value} is not from 0 to {most}")
    for resource, amount in request.custom.items():
        if not _LABEL.match(resource) or not 1 <= amount <= 10**12:
            faults.add(
                "custom",
                "out-of-range",
                f"{resource[:40]!r}: {amount} is not a name with an amount from 1 to 10^12",
            )
    if len(request.custom) > 20:
        faults.add("custom", "out-of-range", "at most 20 custom resources")
    return name, Resources(
        cpu_milli=tier.cpu_milli if cpu is None else cpu,
        memory_bytes=tier.memory_bytes if memory is None else memory,
        disk_bytes=tier.disk_bytes if disk is None else disk,
        gpus=request.gpus or 0,
        ports=request.ports or 0,
        custom=dict(sorted(request.custom.items())),
    )


def _amount(
    field: str,
    value: float | str | None,
    convert: Callable[[Any], int],
    least: int,
    most: int,
    words: str,
    faults: FaultList,
) -> int | None:
    if value is None:
        return None
    try:
        amount = convert(value)
    except ValueError as error:
        faults.add(field, "out-of-range", str(error))
        return None
    if not least <= amount <= most:
        faults.add(field, "out-of-range", f"{value!r:.60} is not {words}")
        return None
    return amount


def pool_of(request: TaskRequest, world: World, faults: FaultList) -> PoolFacts | None:
    name = request.pool or "default"
    pool = world.pools.get(name)
    if pool is None:
        faults.add(
            "pool",
            "unknown-pool",
            f"there is no pool {name[:40]!r}; there are {', '.join(sorted(world.pools))}",
        )
    return pool


def check_labels(request: TaskRequest, faults: FaultList) -> None:
    for name, value in request.require.items():
        if not _LABEL.match(name) or not _LABEL.match(value):
            faults.add(
                "require",
                "invalid-name",
                f"{name[:40]!r}={value[:40]!r} is not a label: letters, digits, . _ / -",
            )
    if len(request.require) > 20:
        faults.add("require", "out-of-range", "at most 20 labels")


def check_satisfiable(shape: Shape, pool: PoolFacts, faults: FaultList) -> None:
    """Refused at once if no present node could ever hold it; an empty or elastic pool may yet get one."""
    if pool.elastic or not pool.nodes:
        return
    demand = shape.resources
    fitting = [
        capacity
        for capacity, labels in pool.nodes
        if all(labels.get(name) == value for name, value in shape.require.items())
    ]
    if any(demand.fits_in(capacity) for capacity in fitting):
        return
    if not fitting:
        wanted = ", ".join(f"{name}={value}" for name, value in shape.require.items())
        faults.add("require", "unsatisfiable", f"no node of pool {pool.name} has {wanted}")
        return
    largest = max(fitting, key=lambda capacity: (capacity.cpu_milli, capacity.memory_bytes))
    faults.add(
        "", "unsatisfiable",
        f"no node of pool {pool.name} could ever hold it; the largest has {largest.cpu_milli / 1000:g} cores, "
        f"{largest.memory_bytes} bytes of memory, {largest.disk_bytes} of disk, {largest.gpus} GPUs",
    )  # fmt: skip


def cap_of(request: TaskRequest, plan: Plan, faults: FaultList) -> int:
    longest = plan.longest_cap_seconds * 1000
    words = f"from 10ms to {plan.longest_cap_seconds}s, the longest of plan {plan.name}"
    cap = _amount("cap", request.cap, milliseconds_of, 10, longest, words, faults)
    return longest if cap is None else cap


def tolerance_of(request: TaskRequest, cap_ms: int, faults: FaultList) -> tuple[int, bool]:
    if request.tolerance is not None:
        given = _amount(
            "tolerance", request.tolerance, milliseconds_of, -LONGEST_TOLERANCE_MS, LONGEST_TOLERANCE_MS,
            "from 0 to 366d", faults,
        )  # fmt: skip
        if given is not None and given < 0:
            faults.add("tolerance", "inconsistent-times", "a start can't be wanted before it is possible")
        return given or 0, True
    return (min(30 * cap_ms, LONGEST_TOLERANCE_MS) if request.cap is not None else DEFAULT_TOLERANCE_MS), False


def retries_of(request: TaskRequest, faults: FaultList) -> tuple[int, int, int]:
    if not 1 <= request.attempts <= MOST_ATTEMPTS:
        faults.add("attempts", "out-of-range", f"{request.attempts} is not from 1 to {MOST_ATTEMPTS}")
    day = 86_400_000
    backoff = _amount("backoff", request.backoff, milliseconds_of, 0, day, "from 0 to 1d", faults)
    limit = _amount("backoff_limit", request.backoff_limit, milliseconds_of, 0, day, "from 0 to 1d", faults)
    first = DEFAULT_BACKOFF_MS if backoff is None else backoff
    return request.attempts, first, max(first, DEFAULT_BACKOFF_LIMIT_MS) if limit is None else limit


def not_before_of(request: TaskRequest, now: datetime, faults: FaultList) -> datetime | None:
    if request.at is not None and request.delay is not None:
        faults.add("at", "inconsistent-times", "give a time (at) or a delay, not both")
        return None
    if request.delay is not None:
        longest = int(LONGEST_DELAY.total_seconds() * 1000)
        delay = _amount("delay", request.delay, milliseconds_of, 0, longest, "from 0 to ten years", faults)
        return None if not delay else now + timedelta(milliseconds=delay)
    if request.at is None:
        return None
    try:
        at = datetime.fromisoformat(request.at)
    except ValueError:
        faults.add("at", "invalid-time", f"{request.at[:60]!r} is not a time; write 2030-01-31T08:00:00Z")
        return None
    if at.tzinfo is None:
        faults.add("at", "invalid-time", f"{request.at[:60]!r} has no zone; end it with Z or +02:00")
        return None
    try:
        at = at.astimezone(UTC)
    except OverflowError:
        at = datetime.max.replace(tzinfo=UTC)
    if at > now + LONGEST_DELAY or at.year < 1970:
        faults.add("at", "invalid-time", f"{request.at[:60]!r} is before 1970 or more than ten years away")
        return None
    return at if at > now else None


def lane_of(request: TaskRequest, faults: FaultList) -> int:
    lane = LANES.get(request.lane or "normal")
    if lane is None:
        faults.add(
            "lane",
            "unknown-lane",
            f"there is no lane {str(request.lane)[:40]!r}; there are {', '.join(LANES)}",
        )
        return Lane.NORMAL
    return lane


def upstream_of(request: TaskRequest, faults: FaultList) -> Upstream:
    if request.upstream not in ("skip", "run"):
        faults.add("upstream", "out-of-range", f"{request.upstream[:40]!r} is neither skip nor run")
        return Upstream.SKIP
    return Upstream.RUN if request.upstream == "run" else Upstream.SKIP


def check_order(request: TaskRequest, faults: FaultList) -> None:
    if not -MOST_PRIORITY <= request.priority <= MOST_PRIORITY:
        faults.add("priority", "out-of-range", f"{request.priority} is not from -{MOST_PRIORITY} to {MOST_PRIORITY}")
    key, limit = request.concurrency_key, request.concurrency_limit
    if key is not None and (not key or len(key) > LONGEST_NAME or _BAD_NAME.search(key)):
        faults.add(
            "concurrency_key",
            "invalid-name",
            f"a key has 1 to {LONGEST_NAME} characters, no control characters",
        )
    if limit is not None and (key is None or not 1 <= limit <= 1_000_000):
        faults.add("concurrency_limit", "out-of-range", "a limit goes with a key and is from 1 to 1,000,000")


def tags_of(request: TaskRequest, faults: FaultList) -> str | None:
    if not request.tags:
        return None
    bad = [n for n, v in request.tags.items() if not n or len(n) > 100 or len(v) > 500 or _BAD_NAME.search(n + v)]
    if bad or len(request.tags) > MOST_TAGS:
        faults.add(
            "tags",
            "invalid-name",
            f"at most {MOST_TAGS} tags, names up to 100 and values up to 500 characters",
        )
    return msgspec.json.encode(request.tags).decode()


def spec_head_of(request: TaskRequest) -> str:
    fields = {
        name: getattr(request, name)
        for name in ("command", "script", "path", "interpreter", "function")
        if getattr(request, name) is not None
    }
    if request.env:
        fields["env"] = request.env
    return msgspec.json.encode(fields).decode()[:-1]
