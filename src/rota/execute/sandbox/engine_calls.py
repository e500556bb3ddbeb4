"""Short blocking calls of a container engine: lists and removes our containers.

For the start of an agent and the end of a keeper, where waiting is fine; never for the event loop.
"""

from __future__ import annotations

import subprocess

from rota.execute.sandbox import container
from rota.execute.sandbox.container import Engine

_PATIENCE_SECONDS = 20.0
MOST_TRIES = 3  # a container that has just died may be in no state that its engine can remove


def remove_all(engine: Engine, data: str) -> str:
    """Removes every container of the agent on one data folder; why that failed, "" if it did not."""
    why = ""
    for _ in range(MOST_TRIES):
        ids, why = ask(engine, container.listing(engine, data))
        if why or not ids.split():
            return why
        _, why = ask(engine, container.removal(engine, ids.split()))
    return why


def ask(engine: Engine, argv: list[str], given: bytes = b"") -> tuple[str, str]:
    """Its output, and why it failed if it did."""
    try:
        answer = subprocess.run(
            argv, env=engine.env, input=given, capture_output=True, cwd="/", timeout=_PATIENCE_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return "", str(error)
    output = answer.stdout.decode("utf-8", "replace")
    if answer.returncode == 0:
        return output, ""
    return output, error_line(answer.stderr.decode("utf-8", "replace")) or f"exit code {answer.returncode}"


def error_line(text: str) -> str:
    """The line with the engine's error, without its decoration."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    output = next(
        (line for line in reversed(lines) if line.startswith(("Error", "docker:"))), lines[-1] if lines else ""
    )
    return output.removeprefix("docker:").strip().removeprefix("Error:").strip()[:500]
