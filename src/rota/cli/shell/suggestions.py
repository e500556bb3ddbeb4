"""Suggestions for an option or a command that does not exist: by meaning first, then by spelling.

People bring the words of the tools they know: `--timeout`, `--queue`, `ps`, `kill`. Each table lists such words beside
the names that do the same here. What is suggested exists in the command line at hand: `known` decides.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

MOST = 3
_SIMILAR = 0.75  # of difflib: below it, words that merely share letters are proposed (--timeout and --mount)

# Words of other tools, without dashes, and the options with that meaning, best first.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "args": ("--args", "--kwargs"),
    "argument": ("--args",),
    "artifact": ("--bring", "--keep"),
    "background": ("--wait",),
    "backoff": ("--backoff",),
    "comment": ("--reason", "--tag"),
    "constraint": ("--require",),
    "container": ("--image",),
    "core": ("--cpu",),
    "cpus-per-task": ("--cpu",),
    "countdown": ("--in",),
    "cron-expression": ("--cron",),
    "cwd": ("--mount", "--bring"),
    "deadline": ("--tolerance", "--cap"),
    "delay": ("--in", "--at"),
    "dependency": ("--after",),
    "depend": ("--after",),
    "depends-on": ("--after",),
    "detach": ("--wait",),
    "duration": ("--cap",),
    "environment": ("--env",),
    "eta": ("--at", "--in"),
    "execution-timeout": ("--cap",),
    "expires": ("--tolerance", "--expire"),
    "force": ("--yes",),
    "format": ("--output",),
    "gres": ("--gpu", "--custom"),
    "group": ("--graph", "--tenant"),
    "input": ("--bring", "--archive"),
    "interval": ("--every",),
    "job-name": ("--name",),
    "json": ("--output",),
    "label": ("--tag", "--require", "--label"),
    "late": ("--tolerance",),
    "lease": ("--cap",),
    "mem": ("--memory",),
    "mutex": ("--concurrency-key",),
    "namespace": ("--tenant",),
    "needs": ("--after",),
    "node": ("--require", "--worker"),
    "nodelist": ("--require",),
    "num-retries": ("--attempts",),
    "parallel": ("--concurrency-limit", "--array"),
    "partition": ("--pool",),
    "poll": ("--watch",),
    "qos": ("--lane", "--priority"),
    "queue": ("--lane", "--pool"),
    "ram": ("--memory",),
    "replicas": ("--array",),
    "resources": ("--cpu", "--memory"),
    "retries": ("--attempts",),
    "retry": ("--attempts", "--retry-on"),
    "run-at": ("--at",),
    "sandbox": ("--isolation",),
    "schedule": ("--schedule", "--at"),
    "semaphore": ("--concurrency-key",),
    "size": ("--tier",),
    "start": ("--at", "--in"),
    "storage": ("--disk",),
    "time": ("--cap", "--at"),
    "time-limit": ("--cap",),
    "timeout": ("--timeout", "--cap"),
    "timezone": ("--tz",),
    "ttl": ("--tolerance", "--cap"),
    "unique-key": ("--idempotency-key",),
    "variable": ("--env", "--set"),
    "volume": ("--mount",),
    "walltime": ("--cap",),
    "when": ("--at", "--in"),
    "zone": ("--require", "--tz"),
}

# Words of other tools and the commands with that meaning. Two words are a group and its command.
_COMMANDS: dict[str, tuple[str, ...]] = {
    "abort": ("cancel",),
    "add": ("submit",),
    "apply": ("submit",),
    "batch": ("submit",),
    "cat": ("logs",),
    "continue": ("resume",),
    "create": ("add", "submit"),
    "cron": ("schedule",),
    "delete": ("remove", "discard", "cancel"),
    "describe": ("show",),
    "details": ("show",),
    "dev": ("up",),
    "dlq": ("dead",),
    "enqueue": ("submit",),
    "exec": ("run",),
    "explain": ("why",),
    "files": ("outputs", "artifact"),
    "follow": ("logs", "wait"),
    "freeze": ("hold", "pause"),
    "get": ("show", "result"),
    "health": ("doctor", "server"),
    "history": ("attempts", "list"),
    "info": ("show", "me"),
    "init": ("up",),
    "inspect": ("show",),
    "jobs": ("list",),
    "kill": ("cancel",),
    "launch": ("run", "submit"),
    "log": ("logs",),
    "ls": ("list",),
    "migrate": ("db",),
    "monitor": ("top",),
    "move": ("edit",),
    "new": ("add", "submit"),
    "nodes": ("node",),
    "output": ("logs", "outputs"),
    "plans": ("plan",),
    "ps": ("list",),
    "purge": ("discard", "cancel"),
    "queue": ("list", "top"),
    "queues": ("pool", "lane"),
    "quota": ("me",),
    "requeue": ("retry", "dead"),
    "rerun": ("retry",),
    "restart": ("retry",),
    "rm": ("remove", "discard", "cancel"),
    "sbatch": ("submit",),
    "scancel": ("cancel",),
    "sinfo": ("node",),
    "squeue": ("list",),
    "srun": ("run",),
    "start": ("up", "run"),
    "stats": ("top",),
    "status": ("show", "list", "top"),
    "stop": ("cancel", "pause"),
    "suspend": ("pause",),
    "tail": ("logs",),
    "task": ("show", "list"),
    "tasks": ("list",),
    "terminate": ("cancel",),
    "undo": ("cancel",),
    "unpause": ("resume",),
    "update": ("edit", "set"),
    "usage": ("me", "top"),
    "view": ("show",),
    "watch": ("top", "wait"),
    "workers": ("node",),
}


def options_like(given: str, known: Collection[str]) -> list[str]:
    """Up to three options that somebody who typed `given` may mean, best first. `--key`: `--concurrency-key`."""
    long = sorted(name for name in known if name.startswith("--"))
    word = given.lstrip("-").lower().replace("_", "-")
    same = [name for name in long if name == f"--{word}"]
    meant = [name for name in _looked_up(_OPTIONS, word) if name in long]
    containing = [name for name in long if word in name.removeprefix("--").split("-")]
    spelled = _spelled_like(f"--{word}", long) if len(word) > 1 else []  # one letter is like too much
    return _first(same, meant, containing, spelled)


def commands_like(given: str, known: Collection[str]) -> list[str]:
    """Up to three commands that somebody who typed `given` may mean, best first. `ps`: `list`."""
    names = sorted(known)
    word = given.lower().replace("_", "-")
    return _first([name for name in _looked_up(_COMMANDS, word) if name in names], _spelled_like(word, names))


def sentence(found: Sequence[str]) -> str:
    """`. Did you mean --cap?`, or nothing."""
    *others, last = found or [""]
    return f". Did you mean {', '.join(others)} or {last}?" if others else f". Did you mean {last}?" if last else ""


def _looked_up(meanings: dict[str, tuple[str, ...]], word: str) -> tuple[str, ...]:
    return meanings.get(word) or meanings.get(word.removesuffix("s")) or meanings.get(f"{word}s") or ()


def _spelled_like(word: str, known: Sequence[str]) -> list[str]:
    return difflib.get_close_matches(word, known, n=MOST, cutoff=_SIMILAR)


def _first(*rounds: Sequence[str]) -> list[str]:
    """The first round that proposes something: a guess by spelling beside a word that was understood only confuses."""
    return next((list(dict.fromkeys(found))[:MOST] for found in rounds if found), [])
