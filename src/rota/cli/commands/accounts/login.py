"""`rota login` and `rota logout`: a token of one's own for this machine, without copying it from anywhere.

The token is in the profile file and nowhere else. A profile that has come in another way is kept and put back.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from rota import running_task, tls
from rota.cli.login.signing_in import Wanted, end_token, sign_in
from rota.cli.shell import checks, output
from rota.cli.shell.connection import await_own_start
from rota.cli.tables.render import add_command, exact
from rota.client.errors import ConfigurationError
from rota.client.transport.kept_profiles import Replaced, put_back, save_login, stored_profile
from rota.client.transport.profile import HOW_TO_NAME_A_SERVER, Profile
from rota.client.transport.starting import profile_path
from rota.model.answers.accounts import NewToken
from rota.servers import addresses_of, socket_of

_MACHINE = re.compile(r"[A-Za-z0-9._@+-]{1,90}", re.ASCII)


def add_to(app: typer.Typer) -> None:
    add_command(
        app,
        "login",
        login,
        "rota login",
        "rota login --server https://rota.example.org",
        "rota login --device",
    )
    add_command(app, "logout", logout, "rota logout")


def login(
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="Server to sign in at. (default: ROTA_SERVER, else the profile's)")
    ] = None,
    device: Annotated[
        bool, typer.Option("--device", help="Show a code to type in a browser on any other machine.")
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Open no browser; print where to go, and a code.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of this machine; the token is cli-NAME. (default: its own)")
    ] = None,
    lasts: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="How long the token is valid. (default: 30d)")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="TENANT", help="Tenant to work at, if you have a role at several.")
    ] = None,
) -> None:
    """Sign in: allow this machine in a browser, and save the token that it gets in the profile.

    The token may do what you may, except making tokens and managing users, and ends after 30 days or with rota logout.
    """
    if running_task.access() is not None:
        raise ConfigurationError("a running task has a key of its own; sign in outside of tasks")
    lasts = checks.duration("--for", lasts)
    wanted = Wanted(
        machine=_machine(name),
        lasts=lasts,
        tenant=tenant or os.environ.get("ROTA_TENANT") or None,
        device=device,
        browser=not no_browser,
    )
    if wanted.tenant is not None:
        checks.word("--tenant", wanted.tenant)
    path = profile_path()
    await_own_start()
    old = stored_profile(path)
    servers = _servers(server, old)
    profile = _without_token(servers, old)
    try:
        made = sign_in(profile, wanted, output.note)
    except KeyboardInterrupt:
        output.note("you ended the login; nothing is changed")
        raise typer.Exit(130) from None
    replaced = _saved(replace(profile, token=made.token, login=made.user), path, old)
    _tell(made, path, replaced, servers)


def _machine(name: str | None) -> str:
    if name is None:
        return re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname())[:60].strip("-") or "machine"
    if not _MACHINE.fullmatch(name):
        raise checks.wrong(
            "--name", f"{name[:60]!r} is not a name; names have letters, digits and . _ @ + -, at most 90"
        )
    return name


def _servers(given: str | None, old: Profile | None) -> tuple[str, ...]:
    text = given or os.environ.get("ROTA_SERVER") or None
    if text is None and old is None:
        raise ConfigurationError(f"no server is named; {HOW_TO_NAME_A_SERVER}")
    try:
        servers = addresses_of(text) if text is not None else old.servers if old is not None else ()
    except ValueError as error:
        if given is None:
            raise ConfigurationError(f"ROTA_SERVER: {error}") from None
        raise checks.wrong("--server", str(error)) from None
    if socket_of(servers[0]) is not None:
        raise ConfigurationError("a browser cannot reach a socket; give --server http://host:port")
    # One of a cluster's addresses: the others stay known.
    return old.servers if old is not None and set(servers) <= set(old.servers) else servers


def _without_token(servers: tuple[str, ...], old: Profile | None) -> Profile:
    """How to reach the servers: as the environment says, else as the profile does if it is theirs."""
    known = old if old is not None and set(servers) <= set(old.servers) else None
    ca = os.environ.get(tls.CA_VARIABLE, "")
    profile = Profile(
        servers,
        ca=str(Path(ca).expanduser().absolute()) if ca else known.ca if known is not None else "",
        insecure_http=tls.allows_clear() or (known is not None and known.insecure_http),
    )
    fault = tls.clear_fault(servers)
    if fault is not None and not profile.insecure_http:
        raise ConfigurationError(fault)  # the new token would come back in clear
    return profile


def _saved(new: Profile, path: Path, old: Profile | None) -> Replaced:
    """A token that nobody can use is ended at once."""
    try:
        replaced = save_login(new, path, old)
    except BaseException:
        end_token(new)
        raise
    if old is not None and old.login is not None and replaced.kept is None and old.token is not None:
        end_token(old)  # an earlier login at the same cluster, perhaps with another name
    return replaced


def _tell(made: NewToken, path: Path, replaced: Replaced, servers: tuple[str, ...]) -> None:
    until = f" until {exact(made.expires_at)}" if made.expires_at else ""
    output.say(f"signed in as {made.user} at {servers[0]}, tenant {made.tenant}, with the token {made.name}{until}")
    output.say(f"saved in {path}")
    old = replaced.old
    if made.replaces is not None:
        output.note(
            f"your earlier token {made.name} has ended; if another machine is called so too, sign in there with --name"
        )
    if replaced.kept is not None and old is not None:
        other = "the token that was there" if set(old.servers) & set(servers) else f"the profile of {old.servers[0]}"
        output.note(f"{other} is kept in {replaced.kept}; `rota logout` puts it back, ROTA_PROFILE uses it meanwhile")
    for variable in ("ROTA_TOKEN", "ROTA_SERVER"):
        value = os.environ.get(variable)
        if value and (variable == "ROTA_TOKEN" or not set(value.split(",")) <= set(servers)):
            output.note(f"{variable} is set here and wins over the profile: unset it to use this login")


def logout(
    yes: Annotated[
        bool, typer.Option("--yes", help="Also revoke a token that rota login has not made, such as rota up's.")
    ] = False,
) -> None:
    """Sign out: revoke the profile's token and remove it. What was in the profile before rota login is put back."""
    path = profile_path()
    old = stored_profile(path)
    if old is None or old.token is None:
        output.say(f"nobody is signed in: {path} has no token")
        return
    if old.login is None and not yes:
        raise ConfigurationError(
            f"the token in {path} has not come by `rota login` (`rota up` writes one too), so it is left alone; "
            f"give --yes to revoke it at {old.servers[0]} all the same"
        )
    trouble = end_token(old)
    restored = put_back(path, old)
    if trouble is None:
        output.say(f"signed out of {old.servers[0]}: the token is revoked, and removed from {path}")
    else:
        output.say(f"the token is removed from {path}")
        hint = "rota token revoke ends it when the server is there" if old.login else "an administrator can revoke it"
        output.note(f"it may still be valid, for {old.servers[0]} did not revoke it: {trouble}; {hint}")
    if restored is not None:
        output.say(f"the profile that was there before `rota login` is back: {Path(path)}")
    if os.environ.get("ROTA_TOKEN"):
        output.note("ROTA_TOKEN is set here and is still used: unset it")
