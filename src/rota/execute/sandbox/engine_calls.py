"""Short calls of a container engine that are waited for: what there is of ours, and its removal.

For the start of an agent and the end of a keeper, where waiting is fine; never for the event loop. Standard library
only: the keeper uses it.
"""

from __future__ import annotations

import subprocess

from rota.execute.sandbox import container
from rota.execute.sandbox.container import Engine

_PATIENCE_SECONDS = 20.0
MOST_TRIES = 3  # a container that died this moment can be in no state that its engine knows how to remove


def remove_all(engine: Engine, data: str) -> str:
    """Removes every container of the agent on one data folder; why that failed, "" if it did not."""
    why = ""
    for _ in range(MOST_TRIES):
        found, why = ask(engine, container.listing(engine, data))
        if why or not found.split():
            return why
        _, why = ask(engine, container.removal(engine, found.split()))
    return why


def ask(engine: Engine, argv: list[str], given: bytes = b"") -> tuple[str, str]:
    """What it answers, and why it failed if it did."""
    try:
        answer = subprocess.run(
            argv, env=engine.env, input=given, capture_output=True, cwd="/", timeout=_PATIENCE_SECONDS, check=False
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return "", str(error)
    told = answer.stdout.decode("utf-8", "replace")
    if answer.returncode == 0:
        return told, ""
    return told, last_words(answer.stderr.decode("utf-8", "replace")) or f"exit code {answer.returncode}"


def last_words(text: str) -> str:
    """The line in which an engine says what went wrong, without its ornaments."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = next((line for line in reversed(lines) if line.startswith(("Error", "docker:"))), lines[-1] if lines else "")
    return told.removeprefix("docker:").strip().removeprefix("Error:").strip()[:500]
