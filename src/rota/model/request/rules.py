"""Rules for a request that need no facts: what to run, names, variables, retries, order. Pure.

Clients apply them to a manifest before they send it, admission to every request, so both report the same faults. The
rules for resources, isolation and files are in `needs.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rota.model.errors import FaultList
from rota.model.request.retry_rules import MOST_RULES, Rule, encode, rule_of
from rota.model.request.task_request import KINDS, TaskRequest
from rota.model.secret import MOST_A_TASK, SERVER_VARIABLE, TOKEN_VARIABLE, name_trouble
from rota.model.task import Kind, Upstream
from rota.model.units import milliseconds_of

MOST_ARGUMENT_BYTES = 128 * 1024
MOST_ENVIRONMENT_BYTES = 128 * 1024
MOST_SCRIPT_BYTES = 1024 * 1024
MOST_TAGS = 50
LONGEST_NAME = 200
LONGEST_KEY = 255
MOST_ATTEMPTS = 100
MOST_PRIORITY = 1_000_000
DEFAULT_BACKOFF_MS = 1_000
DEFAULT_BACKOFF_LIMIT_MS = 300_000

_FUNCTION = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z", re.ASCII)
_ENVIRONMENT_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_RESERVED_ENVIRONMENT = re.compile(r"^(ROTA_(?!SERVER$)|LD_|GCONV_PATH$|GLIBC_TUNABLES$)")
BAD_NAME = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")


def check_work(request: TaskRequest, faults: FaultList) -> Kind | None:
    """Applies all rules of this file. Returns the kind of work, if it is valid."""
    kind = kind_of(request, faults)
    if request.name is not None:
        check_name(request, faults)
    check_environment(request, faults)
    secrets_of(request, faults)
    check_may_submit(request, faults)
    retries_of(request, faults)
    retry_rules_of(request, faults)
    upstream_of(request, faults)
    check_order(request, faults)
    check_tags(request, faults)
    trouble = None if request.idempotency_key is None else key_trouble(request.idempotency_key)
    if trouble is not None:
        faults.add("idempotency_key", "idempotency-key-invalid", trouble)
    return kind


def key_trouble(key: str) -> str | None:
    """What is wrong with an idempotency key; None: nothing. It travels in a header, which loses spaces at its ends."""
    right = f"an idempotency key has 1 to {LONGEST_KEY} printable ASCII characters and no space at either end"
    if not key.strip():
        return f"{right}; {'this one is empty' if not key else 'this one has only spaces'}"
    if len(key) > LONGEST_KEY:
        return f"{right}; this one has {len(key)}"
    return None if key.isascii() and key.isprintable() and key == key.strip() else f"{right}; this one is {key!r:.60}"


def kind_of(request: TaskRequest, faults: FaultList) -> Kind | None:
    named = [n for n in KINDS if getattr(request, n) is not None]
    if len(named) != 1:
        given = "none is given" if not named else f"{' and '.join(named)} are given"
        faults.add("", "invalid-command", f"exactly one of {', '.join(KINDS)} says what to run; {given}")
        return None
    if request.interpreter is not None and named[0] not in ("script", "path", "upload"):
        faults.add("interpreter", "invalid-command", "an interpreter goes with script, path or upload only")
    for field in ("command", "interpreter"):
        arguments: list[str] | None = getattr(request, field)
        if arguments is not None:
            _argv(field, arguments, faults)
    if request.script is not None and not request.script.strip():
        faults.add("script", "invalid-command", "the script is empty")
    if request.script is not None and len(request.script.encode()) > MOST_SCRIPT_BYTES:
        faults.add("script", "invalid-command", f"the script is larger than {MOST_SCRIPT_BYTES} bytes; upload it")
    if request.path is not None and (not request.path.startswith("/") or "\0" in request.path):
        faults.add("path", "invalid-path", f"{request.path[:80]!r} is not an absolute path")
    if request.function is not None:
        if not _FUNCTION.match(request.function) or len(request.function) > 500:
            faults.add(
                "function",
                "unknown-function",
                f"{request.function[:80]!r} does not name a function; write package.module:name",
            )
        return Kind.FUNCTION
    return Kind.COMMAND if request.command is not None else Kind.SCRIPT


def _argv(field: str, arguments: list[str], faults: FaultList) -> None:
    if not arguments or not arguments[0]:
        faults.add(field, "invalid-command", "the name of the program is missing; it is the first word")
    if any("\0" in argument for argument in arguments):
        faults.add(field, "invalid-command", "an argument contains NUL, which no program can be given")
    if sum(len(argument.encode()) + 1 for argument in arguments) > MOST_ARGUMENT_BYTES:
        faults.add(field, "invalid-command", f"the arguments are larger than {MOST_ARGUMENT_BYTES} bytes")


def check_name(request: TaskRequest, faults: FaultList) -> None:
    name = request.name or ""
    if not name.strip() or len(name) > LONGEST_NAME or BAD_NAME.search(name):
        faults.add(
            "name",
            "invalid-name",
            f"a name has 1 to {LONGEST_NAME} characters, none of them a control character or a mark of direction",
        )


def check_environment(request: TaskRequest, faults: FaultList) -> None:
    size = 0
    for name, value in request.env.items():
        size += len(name.encode()) + len(value.encode()) + 2
        pointer = f"env/{name[:80].replace('~', '~0').replace('/', '~1')}"
        if not _ENVIRONMENT_NAME.match(name):
            detail = (
                f"{name[:80]!r} is not a variable's name, which has letters, digits and underscores, and no digit first"
            )
            faults.add(pointer, "reserved-env", detail)
        elif _RESERVED_ENVIRONMENT.match(name):
            hint = "; give a token as a secret, or use may_submit" if name == TOKEN_VARIABLE else ""
            faults.add(pointer, "reserved-env", f"{name} is reserved (ROTA_…, LD_… and the loader's own){hint}")
        if "\0" in value:
            faults.add(pointer, "invalid-character", f"the value of {name[:80]} contains NUL")
    if size > MOST_ENVIRONMENT_BYTES:
        faults.add("env", "invalid-command", f"the environment is larger than {MOST_ENVIRONMENT_BYTES} bytes")


def check_may_submit(request: TaskRequest, faults: FaultList) -> None:
    """A task that may submit is given an address and a key; others of its own would send the key to strangers."""
    if not request.may_submit:
        return
    if SERVER_VARIABLE in request.env:
        detail = f"a task with may_submit is given {SERVER_VARIABLE}; leave it out of env, or leave out may_submit"
        faults.add(f"env/{SERVER_VARIABLE}", "reserved-env", detail)
    if TOKEN_VARIABLE in request.secrets:
        detail = f"a task with may_submit is given {TOKEN_VARIABLE}; leave out the secret, or leave out may_submit"
        faults.add(f"secrets/{request.secrets.index(TOKEN_VARIABLE)}", "reserved-env", detail)


def secrets_of(request: TaskRequest, faults: FaultList) -> tuple[str, ...]:
    """The names, each once. Admission checks for the whole batch whether the tenant has them."""
    if not request.secrets:
        return ()
    names = tuple(dict.fromkeys(request.secrets))
    for position, name in enumerate(request.secrets):
        trouble = name_trouble(name)
        if trouble is not None:
            faults.add(f"secrets/{position}", "invalid-name", trouble)
        elif name in request.env:
            faults.add(f"secrets/{position}", "reserved-env", f"{name} is in env too; a variable has one value")
    if len(names) > MOST_A_TASK:
        faults.add("secrets", "out-of-range", f"a task has at most {MOST_A_TASK} secrets, not {len(names)}")
    return names


def retries_of(request: TaskRequest, faults: FaultList) -> tuple[int, int, int]:
    if not 1 <= request.attempts <= MOST_ATTEMPTS:
        faults.add(
            "attempts",
            "out-of-range",
            f"attempts is a whole number from 1 to {MOST_ATTEMPTS}, not {request.attempts}",
        )
    day = 86_400_000
    backoff = amount_of("backoff", request.backoff, milliseconds_of, 0, day, "from 0 to 1d", faults)
    limit = amount_of("backoff_limit", request.backoff_limit, milliseconds_of, 0, day, "from 0 to 1d", faults)
    first = DEFAULT_BACKOFF_MS if backoff is None else backoff
    return request.attempts, first, max(first, DEFAULT_BACKOFF_LIMIT_MS) if limit is None else limit


def retry_rules_of(request: TaskRequest, faults: FaultList) -> str | None:
    """The rules as they are stored; those that fail the task first."""
    rules: list[Rule] = []
    for field, retry in (("fail_on", False), ("retry_on", True)):
        texts: list[str] = getattr(request, field)
        if len(texts) > MOST_RULES:
            faults.add(field, "out-of-range", f"{field} has at most {MOST_RULES} rules, not {len(texts)}")
            continue
        for position, text in enumerate(texts):
            try:
                rules.append(rule_of(text, retry=retry))
            except ValueError as error:
                faults.add(f"{field}/{position}", "invalid-rule", str(error))
    if request.retry_on and request.attempts == 1:
        faults.add("retry_on", "out-of-range", "with one attempt nothing is retried; give attempts of 2 or more")
    return encode(rules) if rules else None


def upstream_of(request: TaskRequest, faults: FaultList) -> Upstream:
    if request.upstream not in ("skip", "run"):
        faults.add("upstream", "out-of-range", f"upstream is skip or run, not {request.upstream[:40]!r}")
        return Upstream.SKIP
    return Upstream.RUN if request.upstream == "run" else Upstream.SKIP


def check_order(request: TaskRequest, faults: FaultList) -> None:
    if not -MOST_PRIORITY <= request.priority <= MOST_PRIORITY:
        faults.add(
            "priority",
            "out-of-range",
            f"priority is a whole number from -{MOST_PRIORITY:,} to {MOST_PRIORITY:,}, not {request.priority}",
        )
    key, limit = request.concurrency_key, request.concurrency_limit
    if key is not None:
        check_concurrency_key(key, "concurrency_key", faults)
    if limit is not None and (key is None or not 1 <= limit <= 1_000_000):
        detail = "a limit goes with a concurrency_key and is from 1 to 1,000,000"
        faults.add("concurrency_limit", "out-of-range", detail)
    if request.concurrency_scope not in ("pool", "global"):
        scope = request.concurrency_scope[:40]
        faults.add("concurrency_scope", "out-of-range", f"concurrency_scope is pool or global, not {scope!r:.40}")
    elif request.concurrency_scope == "global" and key is None:
        faults.add("concurrency_scope", "out-of-range", "a scope goes with a concurrency_key")


def check_concurrency_key(key: str, field: str, faults: FaultList) -> None:
    if not key or len(key) > LONGEST_NAME or BAD_NAME.search(key):
        detail = f"a concurrency key has 1 to {LONGEST_NAME} characters, none of them a control character"
        faults.add(field, "invalid-name", detail)


def check_tags(request: TaskRequest, faults: FaultList) -> None:
    bad = [n for n, v in request.tags.items() if not n or len(n) > 100 or len(v) > 500 or BAD_NAME.search(n + v)]
    if bad or len(request.tags) > MOST_TAGS:
        faults.add(
            "tags",
            "invalid-name",
            f"a task has at most {MOST_TAGS} tags, with names of 1 to 100 and values of up to 500 characters",
        )


def amount_of(
    field: str,
    value: float | str | None,
    convert: Callable[[Any], int],
    least: int,
    most: int,
    bounds: str,
    faults: FaultList,
) -> int | None:
    """A number in human units within its bounds; None: not given, or a fault was added."""
    if value is None:
        return None
    try:
        amount = convert(value)
    except ValueError as error:
        faults.add(field, "out-of-range", str(error))
        return None
    if not least <= amount <= most:
        faults.add(field, "out-of-range", f"{value!r:.60} is not {bounds}")
        return None
    return amount
