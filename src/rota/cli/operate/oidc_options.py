"""The settings of single sign-on: the table `[oidc]` of `rota.toml`, some of it from the environment.

The client secret comes from a file that others can't read, or from `ROTA_OIDC_CLIENT_SECRET`, and from nowhere else.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rota.cli.shell.checks import wrong
from rota.model.accounts.oidc import OidcFault, OidcSettings, oidc_settings
from rota.settings import SettingsError, read_file

_FROM_ENVIRONMENT = ("issuer", "client_id", "client_secret_file", "name")
_LONGEST_SECRET = 4_096


def oidc_setting() -> OidcSettings | None:
    """None: there is no table `[oidc]`, and the environment names no provider."""
    try:
        table = read_file(None).get("oidc", {})
    except SettingsError as error:
        raise wrong("rota.toml", str(error)) from None
    if not isinstance(table, dict):
        raise wrong("rota.toml", "oidc must be a table: [oidc] on a line of its own, its settings below")
    given = {name: os.environ.get(f"ROTA_OIDC_{name.upper()}") for name in _FROM_ENVIRONMENT}
    table = {**table, **{name: text for name, text in given.items() if text}}
    if not table:
        return None
    try:
        return oidc_settings(table, _secret(table.get("client_secret_file")))
    except OidcFault as error:
        where = f"ROTA_OIDC_{error.field.upper()}" if given.get(error.field) else "rota.toml"
        raise wrong(where, str(error)) from None


def _secret(file: object) -> str:
    given = os.environ.get("ROTA_OIDC_CLIENT_SECRET", "").strip()
    if file is None or given:
        return given
    if not isinstance(file, str):
        raise OidcFault("client_secret_file", "it must be the path of a file with the client secret")
    path = Path(file)
    try:
        with path.open() as opened:
            mode = os.fstat(opened.fileno()).st_mode
            text = opened.read(_LONGEST_SECRET + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OidcFault(
            "client_secret_file", f"{path}: {getattr(error, 'strerror', None) or 'it is not text'}"
        ) from None
    if stat.S_IMODE(mode) & 0o007:
        raise OidcFault("client_secret_file", f"{path} is open to every user of this machine; chmod 600 it")
    if not 0 < len(text) <= _LONGEST_SECRET or not text.isprintable() or " " in text:
        raise OidcFault("client_secret_file", f"{path}: it must hold the client secret on one line, and nothing else")
    return text
