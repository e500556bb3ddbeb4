"""The servers' addresses and the token: from arguments, else the running call, the environment, the profile file.

`rota up` and `rota login` write the profile (`kept_profiles.py` says what they must not lose), every client reads it.
The file contains a token, so it has mode 0600 and is replaced in one step; its content never appears in a message.
Nothing here connects.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rota import running_task, tls
from rota.client.errors import ConfigurationError
from rota.client.transport.local_files import replaced_file
from rota.client.transport.starting import profile_path
from rota.servers import addresses_of

HOW_TO_NAME_A_SERVER = "rota login --server URL, set ROTA_SERVER, or start one here with `rota up`"


@dataclass(frozen=True, slots=True)
class Profile:
    """The addresses of a cluster's servers, the preferred one first, and the token for them; None: none is known."""

    servers: tuple[str, ...]
    token: str | None = field(default=None, repr=False)
    tenant: str | None = None  # that requests are to; None: the token's own
    ca: str = ""  # the file with the authorities that are trusted; "": the machine's
    insecure_http: bool = False  # the token may travel in clear
    login: str | None = None  # the user as whom `rota login` got the token; None: it has come in another way
    before: str | None = None  # the file with the profile that was here before `rota login`
    program: str = field(default="rota-python", compare=False)  # what sends the requests, for the server's audit log


_program = ["rota-python"]  # of this process


def name_program(name: str) -> None:
    """What the clients of this process call themselves from now on."""
    _program[:] = [name]


def resolve(
    server: str | None = None, token: str | None = None, environment: Mapping[str, str] = os.environ
) -> Profile:
    """The profile to use. The file is read only when arguments and environment leave something open."""
    if server is None and (access := running_task.access()) is not None:
        server, token = access[0], token or access[1]
    server = server or environment.get("ROTA_SERVER") or None
    token = token or environment.get("ROTA_TOKEN") or None
    ca, insecure_http = environment.get(tls.CA_VARIABLE, ""), tls.allows_clear(environment)
    servers = None if server is None else _servers(server)
    if servers is None or token is None:
        path = profile_path(environment)
        if environment.get("ROTA_PROFILE") or _is_there(path):
            stored = read_profile(path)
            # A token belongs to its servers: never send the file's token to an address that the file does not name.
            if token is None and (servers is None or set(servers) <= set(stored.servers)):
                token = stored.token
            if servers is None or set(servers) <= set(stored.servers):
                ca, insecure_http = ca or stored.ca, insecure_http or stored.insecure_http
            servers = servers or stored.servers
    if servers is None:
        raise ConfigurationError(f"no server is named; {HOW_TO_NAME_A_SERVER}")
    return Profile(
        servers,
        _checked(token),
        _tenant(environment.get("ROTA_TENANT")),
        ca=ca,
        insecure_http=insecure_http,
        program=_program[-1],
    )


def origin_of_token(environment: Mapping[str, str] = os.environ) -> str:
    """Where `resolve` finds the token, as people read it."""
    if running_task.access() is not None:
        return "the key of this task"
    if environment.get("ROTA_TOKEN"):
        return "ROTA_TOKEN"
    path = profile_path(environment)
    if not path.exists():
        return "no profile"
    return f"{path}{' (rota login)' if read_profile(path).login is not None else ''}"


def _is_there(path: Path) -> bool:
    """True of a file in a folder that this user may not enter, too: it is told that it can't be read."""
    try:
        return path.exists()
    except OSError:
        return True


def read_profile(path: Path) -> Profile:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"profile {path}: no such file; {HOW_TO_NAME_A_SERVER}") from None
    except OSError as error:
        raise ConfigurationError(f"profile {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"profile {path}: not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"profile {path}: not TOML: {error}") from None
    server, token = document.get("server"), document.get("token")
    if not isinstance(server, str) or not isinstance(token, str | None):
        wanted = 'server = "http://…" (several with commas) and token = "…"'
        raise ConfigurationError(f"profile {path}: write {wanted}, both as text")
    login, before = document.get("login"), document.get("before")
    if not isinstance(login, str | None) or not isinstance(before, str | None):
        raise ConfigurationError(f"profile {path}: login and before, which `rota login` writes, are text")
    ca, insecure_http = document.get("ca", ""), document.get("insecure_http", False)
    if not isinstance(ca, str) or not isinstance(insecure_http, bool):
        raise ConfigurationError(f'profile {path}: write ca = "FILE" as text, and insecure_http as true or false')
    return Profile(
        _servers(server),
        token,
        ca=str(path.absolute().parent / Path(ca).expanduser()) if ca else "",
        insecure_http=insecure_http,
        login=login,
        before=before,
    )


def write_profile(profile: Profile, path: Path) -> None:
    """Replaces the profile file in one step, readable by its owner alone."""
    lines = [f"server = {_toml_text(','.join(profile.servers))}"]
    for name in ("token", "ca", "login", "before"):
        value = getattr(profile, name)
        if value:
            lines.append(f"{name} = {_toml_text(value)}")
    if profile.insecure_http:
        lines.append("insecure_http = true")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with replaced_file(path, private=True) as file:
            file.write("\n".join([*lines, ""]).encode())
    except OSError as error:
        raise ConfigurationError(f"profile {path}: cannot be written: {error.strerror}") from None


def _servers(text: str) -> tuple[str, ...]:
    try:
        return addresses_of(text)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def _checked(token: str | None) -> str | None:
    token = token.strip() if token else None
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigurationError("the token has characters that no token has; copy it whole, and nothing else")
    return token or None


def _tenant(name: str | None) -> str | None:
    name = name.strip() if name else None
    if name and not all(character.isascii() and (character.isalnum() or character == "-") for character in name):
        raise ConfigurationError(f"ROTA_TENANT: {name[:60]!r} is not a tenant's name; it has a-z, 0-9 and -")
    return name or None


def _toml_text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    if not escaped.isprintable():
        raise ConfigurationError("a profile contains printable text only")
    return f'"{escaped}"'
