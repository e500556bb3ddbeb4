"""Replaces the profile file without losing what is in it: a token that `rota login` did not make, or another server's.

Such a profile is kept beside the new one, which names the file as `before`; `rota logout` puts it back. Nothing here
connects.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from rota.client.errors import ConfigurationError
from rota.client.transport.profile import Profile, read_profile, write_profile

_MOST_KEPT = 50


@dataclass(frozen=True, slots=True)
class Replaced:
    """What became of the profile that was there."""

    kept: Path | None = None  # where it is now
    old: Profile | None = None


def stored_profile(path: Path) -> Profile | None:
    """The profile in this file; None if there is none."""
    return read_profile(path) if path.exists() else None


def save_login(new: Profile, path: Path, old: Profile | None) -> Replaced:
    """`new` has come by `rota login`; `old` is what the file has. An earlier login at the same server makes way."""
    if old is None or old.token is None:
        before = None if old is None else old.before
        write_profile(replace(new, before=before), path)
        return Replaced(old=old)
    if old.login is not None and is_same_cluster(old, new):
        write_profile(replace(new, before=old.before), path)
        return Replaced(old=old)
    kept = _free_name(path, old)
    write_profile(old, kept)
    write_profile(replace(new, before=str(kept)), path)
    return Replaced(kept=kept, old=old)


def save_own(new: Profile, path: Path) -> Path | None:
    """`new` is of a server that starts on this machine. A login there stays, and `new` waits behind it.

    What is of servers elsewhere is kept aside. Returns the file that has what is not in use now, if there is one.
    """
    try:
        old = stored_profile(path)
    except ConfigurationError:  # damaged, so nobody can use it: it has to be written anew
        old = None
    if old is None or old.token is None or (old.login is None and _is_of_this_machine(old)):
        write_profile(new if old is None else replace(new, before=old.before), path)
        return None
    if old.login is not None and is_same_cluster(old, new):
        kept = Path(old.before) if old.before else _free_name(path, new)
        write_profile(new, kept)
        write_profile(replace(old, before=str(kept)), path)
        return kept
    kept = _free_name(path, old)
    write_profile(old, kept)
    write_profile(replace(new, before=str(kept)), path)
    return kept


def _is_of_this_machine(profile: Profile) -> bool:
    return all(urlsplit(server).hostname in ("127.0.0.1", "localhost", "::1", None) for server in profile.servers)


def put_back(path: Path, old: Profile) -> Path | None:
    """The token in the file is good no more. Returns the file whose profile is there again; None: there was none."""
    if old.before is not None and Path(old.before).exists():
        kept = read_profile(Path(old.before))
        write_profile(kept, path)
        with contextlib.suppress(OSError):
            os.unlink(old.before)
        return Path(old.before)
    write_profile(replace(old, token=None, login=None, before=None), path)
    return None


def is_same_cluster(one: Profile, other: Profile) -> bool:
    return bool(set(one.servers) & set(other.servers))


def _free_name(path: Path, profile: Profile) -> Path:
    """`profile.rota.example.org-7070.toml`."""
    server = re.sub(r"[^A-Za-z0-9.]+", "-", profile.servers[0].partition("://")[2] or profile.servers[0]).strip("-")[
        :80
    ]
    for number in range(1, _MOST_KEPT):
        tail = "" if number == 1 else f"-{number}"
        name = path.absolute().with_name(f"{path.stem}.{server}{tail}{path.suffix}")
        if not name.exists():
            return name
    raise ConfigurationError(f"{path.parent} has {_MOST_KEPT} kept profiles of {profile.servers[0]}; remove old ones")
