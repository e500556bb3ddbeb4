"""One function a field: what it means, or the fault it has. Pure; `validate` calls them in reading order."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec

from rota.admit.facts import World
from rota.admit.room import amount_of
from rota.model.catalogue import Category, LaneRule
from rota.model.errors import FaultList
from rota.model.isolation import Isolation
from rota.model.queue import work_hash
from rota.model.request import KINDS, TaskRequest
from rota.model.retry_rules import MOST_RULES, Rule, encode, rule_of
from rota.model.secret import MOST_A_TASK, name_trouble
from rota.model.task import Kind, Upstream
from rota.model.tenant import Plan
from rota.model.units import duration_text, milliseconds_of

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
PATIENCE = 30  # a start nobody set a time for may be delayed by so many times its length
LONGEST_TOLERANCE_MS = 366 * 86_400_000
LONGEST_DELAY = timedelta(days=3660)

_FUNCTION = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", re.ASCII)
_ENVIRONMENT_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$", re.ASCII)
_RESERVED_ENVIRONMENT = re.compile(r"^(ROTA_(?!SERVER$)|LD_|GCONV_PATH$|GLIBC_TUNABLES$)")
_BAD_NAME = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")


def kind_of(request: TaskRequest, faults: FaultList) -> Kind | None:
    named = [n for n in KINDS if getattr(request, n) is not None]
    if len(named) != 1:
        said = "none is given" if not named else f"{' and '.join(named)} are given"
        faults.add("", "invalid-command", f"exactly one of {', '.join(KINDS)} says what to run; {said}")
        return None
    if request.interpreter is not None and named[0] not in ("script", "path", "upload"):
        faults.add("interpreter", "invalid-command", "an interpreter goes with script, path or upload only")
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


def name_of(request: TaskRequest, uploaded: str, faults: FaultList) -> str:
    """Its own name, or one made from what it runs; `uploaded` is what the owner calls the uploaded program."""
    if request.name is not None:
        if not request.name.strip() or len(request.name) > LONGEST_NAME or _BAD_NAME.search(request.name):
            faults.add("name", "invalid-name",
                       f"a name has 1 to {LONGEST_NAME} characters, no control or direction marks")  # fmt: skip
        return request.name
    if request.function is not None:
        return _own_name(request.function)
    if request.command:
        return _BAD_NAME.sub("?", request.command[0].rpartition("/")[2])[:LONGEST_NAME] or "command"
    if request.path:
        return _BAD_NAME.sub("?", request.path.rpartition("/")[2])[:LONGEST_NAME] or "script"
    return _BAD_NAME.sub("?", uploaded)[:LONGEST_NAME] or "script"


def work_of(request: TaskRequest, kind: Kind, name: str) -> int:
    """By what its run time is learned. A function that only goes by its place in a graph is the same work anywhere."""
    if request.function is not None and request.name == request.ref:
        name = _own_name(request.function)
    return work_hash(kind, name)


def _own_name(function: str) -> str:
    return function.rpartition(":")[2][:LONGEST_NAME]


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
            hint = "; a key is given as a secret" if name == "ROTA_TOKEN" else ""
            faults.add(pointer, "reserved-env", f"{name} is reserved (ROTA_…, LD_… and the loader's own){hint}")
        if "\0" in value:
            faults.add(pointer, "invalid-character", f"the value of {name[:80]} contains NUL")
    if size > MOST_ENVIRONMENT_BYTES:
        faults.add("env", "invalid-command", f"the environment is larger than {MOST_ENVIRONMENT_BYTES} bytes")


def secrets_of(request: TaskRequest, faults: FaultList) -> tuple[str, ...]:
    """The names, each once. Whether the tenant has them is asked once for the whole batch, elsewhere."""
    if not request.secrets:
        return ()
    names = tuple(dict.fromkeys(request.secrets))
    for name in names:
        trouble = name_trouble(name)
        if trouble is not None:
            faults.add("secrets", "invalid-name", trouble)
        elif name in request.env:
            faults.add("secrets", "reserved-env", f"{name} is in env too; a variable has one value")
    if len(names) > MOST_A_TASK:
        faults.add("secrets", "out-of-range", f"a task has at most {MOST_A_TASK} secrets, not {len(names)}")
    return names


def category_of(request: TaskRequest, world: World, faults: FaultList) -> Category | None:
    if request.category is None:
        return None
    category = world.categories.get(request.category)
    if category is None:
        there = f"there are {', '.join(sorted(world.categories))}" if world.categories else "none is defined yet"
        faults.add("category", "unknown-category", f"there is no category {request.category[:40]!r}; {there}")
    return category


def cap_of(request: TaskRequest, category: Category | None, plan: Plan, faults: FaultList) -> tuple[int, bool]:
    """The longest execution, and whether anybody named it: the client, else the category."""
    longest = plan.longest_cap_seconds * 1000
    words = f"from 10ms to {duration_text(longest)}, the longest of plan {plan.name}"
    cap = amount_of("cap", request.cap, milliseconds_of, 10, longest, words, faults)
    if cap is None and category is not None and category.cap_ms is not None:
        cap = min(category.cap_ms, longest)
    return (longest, False) if cap is None else (cap, True)


def tolerance_of(
    request: TaskRequest, category: Category | None, cap: tuple[int, bool], typical_us: int | None, faults: FaultList
) -> tuple[int, bool]:
    """How long the start may be delayed, and whether somebody asked for it: only then does it promote.

    Nobody did: 30 times as long as it may take, or as such work usually takes, but then an hour at most.
    """
    if request.tolerance is not None:
        given = amount_of(
            "tolerance", request.tolerance, milliseconds_of, -LONGEST_TOLERANCE_MS, LONGEST_TOLERANCE_MS,
            "from 0 to 366d", faults,
        )  # fmt: skip
        if given is not None and given < 0:
            faults.add("tolerance", "inconsistent-times", "a start can't be wanted before it is possible")
        return given or 0, True
    if category is not None and category.tolerance_ms is not None:
        return category.tolerance_ms, True
    cap_ms, cap_given = cap
    if cap_given:
        return min(PATIENCE * cap_ms, LONGEST_TOLERANCE_MS), False
    if typical_us is None:
        return DEFAULT_TOLERANCE_MS, False
    return min(max(1, PATIENCE * typical_us // 1000), DEFAULT_TOLERANCE_MS), False


def expires_of(request: TaskRequest, *, tolerance_given: bool, faults: FaultList) -> bool:
    """Whether it is dropped once its tolerance has run out before it could start."""
    if request.on_late not in ("keep", "drop"):
        faults.add("on_late", "out-of-range", f"{request.on_late[:40]!r} is neither keep nor drop")
    elif request.on_late == "drop" and not tolerance_given:
        faults.add(
            "on_late", "inconsistent-times", "a task is dropped when its tolerance has run out; give a tolerance"
        )
    return request.on_late == "drop"


def retries_of(request: TaskRequest, faults: FaultList) -> tuple[int, int, int]:
    if not 1 <= request.attempts <= MOST_ATTEMPTS:
        faults.add("attempts", "out-of-range", f"{request.attempts} is not from 1 to {MOST_ATTEMPTS}")
    day = 86_400_000
    backoff = amount_of("backoff", request.backoff, milliseconds_of, 0, day, "from 0 to 1d", faults)
    limit = amount_of("backoff_limit", request.backoff_limit, milliseconds_of, 0, day, "from 0 to 1d", faults)
    first = DEFAULT_BACKOFF_MS if backoff is None else backoff
    return request.attempts, first, max(first, DEFAULT_BACKOFF_LIMIT_MS) if limit is None else limit


def retry_rules_of(request: TaskRequest, faults: FaultList) -> str | None:
    """The rules as they are stored; those that fail at once first."""
    rules: list[Rule] = []
    for field, retry in (("fail_on", False), ("retry_on", True)):
        texts: list[str] = getattr(request, field)
        if len(texts) > MOST_RULES:
            faults.add(field, "out-of-range", f"at most {MOST_RULES} rules, not {len(texts)}")
            continue
        for place, text in enumerate(texts):
            try:
                rules.append(rule_of(text, retry=retry))
            except ValueError as error:
                faults.add(f"{field}/{place}", "invalid-rule", str(error))
    if request.retry_on and request.attempts == 1:
        faults.add("retry_on", "out-of-range", "with one attempt nothing is retried; give attempts of 2 or more")
    return encode(rules) if rules else None


def not_before_of(request: TaskRequest, now: datetime, faults: FaultList) -> datetime | None:
    if request.at is not None and request.delay is not None:
        faults.add("at", "inconsistent-times", "give a time (at) or a delay, not both")
        return None
    if request.delay is not None:
        longest = int(LONGEST_DELAY.total_seconds() * 1000)
        delay = amount_of("delay", request.delay, milliseconds_of, 0, longest, "from 0 to ten years", faults)
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


def lane_of(request: TaskRequest, category: Category | None, world: World, faults: FaultList) -> LaneRule:
    return lane_named(request.lane or (category.lane if category is not None else None) or "normal", world, faults)


def lane_named(name: str, world: World, faults: FaultList) -> LaneRule:
    lane = world.lanes.get(name)
    if lane is None:
        faults.add("lane", "unknown-lane", f"there is no lane {name[:40]!r}; there are {', '.join(world.lanes)}")
        return LaneRule(1, name)
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
    if key is not None:
        check_concurrency_key(key, "concurrency_key", faults)
    if limit is not None and (key is None or not 1 <= limit <= 1_000_000):
        faults.add("concurrency_limit", "out-of-range", "a limit goes with a key and is from 1 to 1,000,000")
    if request.concurrency_scope not in ("pool", "global"):
        scope = request.concurrency_scope[:40]
        faults.add("concurrency_scope", "out-of-range", f"{scope!r} is neither pool nor global")
    elif request.concurrency_scope == "global" and key is None:
        faults.add("concurrency_scope", "out-of-range", "a scope goes with a concurrency_key")


def check_concurrency_key(key: str, field: str, faults: FaultList) -> None:
    if not key or len(key) > LONGEST_NAME or _BAD_NAME.search(key):
        faults.add(field, "invalid-name", f"a key has 1 to {LONGEST_NAME} characters, no control characters")


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


def spec_head_of(
    request: TaskRequest, isolation: Isolation, secrets: tuple[str, ...], attached: dict[str, object], *, owner: str
) -> str:
    # Names of secrets come first: the leader tells by a spec's head whether there are any.
    fields: dict[str, object] = {"secrets": secrets} if secrets else {}
    fields |= {
        name: getattr(request, name)
        for name in ("command", "script", "path", "interpreter", "function", "image")
        if getattr(request, name) is not None
    }
    for name in ("env", "network", "processes", "mounts"):
        if getattr(request, name):
            fields[name] = getattr(request, name)
    if request.mounts:
        fields["owner"] = owner  # the agent shows a mount only to those it is for
    if isolation is not Isolation.NONE:
        fields["isolation"] = isolation
    fields |= attached
    return msgspec.json.encode(fields).decode()[:-1]
