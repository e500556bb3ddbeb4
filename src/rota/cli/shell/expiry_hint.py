"""Says to a person at a terminal, at most once a day, that the token in use expires soon.

Servers say so with every answer in a token's last days; the file beside the profile tells when the hint was last given.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from rota.cli.shell import output
from rota.client.transport.starting import profile_path

AGAIN_SECONDS = 24 * 3600.0

_answers: list[Callable[[], str | None]] = []  # of this command line's connections


def watch(expires: Callable[[], str | None]) -> None:
    """`expires`: what the server has said until the end of the command."""
    _answers.append(expires)


def say_if_due() -> None:
    """At the end of a command line."""
    said = [found for read in _answers if (found := read()) is not None]
    _answers.clear()
    if not said or not sys.stderr.isatty():
        return
    marker = _marker(profile_path())
    if is_due(_given_at(marker), time.time()) and _note_given(marker):
        output.note(hint(said[0], os.environ))


def is_due(given_at: float | None, now: float) -> bool:
    """A clock that was set back does not silence the hint."""
    return given_at is None or not 0 <= now - given_at < AGAIN_SECONDS


def hint(expires: str, environment: Mapping[str, str]) -> str:
    try:
        when = datetime.fromisoformat(expires).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        when = "soon"
    if environment.get("ROTA_TOKEN"):
        return f"the token in ROTA_TOKEN expires {when}; rota token rotate makes a new text of it"
    return f"your token expires {when}; rota login gets a new one"


def _marker(profile: Path) -> Path:
    return profile.with_name(f".{profile.name}.expiry-hint")


def _given_at(marker: Path) -> float | None:
    try:
        return marker.stat().st_mtime
    except OSError:
        return None


def _note_given(marker: Path) -> bool:
    """False: it can't be noted, and would be said every time."""
    try:
        marker.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        marker.touch()
    except OSError:
        return False
    return True
