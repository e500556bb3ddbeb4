"""Options of a server node that `rota up` and `rota serve` share: their declarations, and the checks of what was typed.

Whoever adds one here adds it to both commands. Those that bound HTTP clients are in `http_options.py`, also for both.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from rota.cli.operate.oidc_options import oidc_setting
from rota.cli.operate.settings_options import count_setting, days_setting, setting, size_setting
from rota.cli.shell.checks import wrong
from rota.settings import SettingsError, object_options, read_file


def server_options(
    objects: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Object store for artifacts: a folder (shared by all servers), s3://bucket/prefix, gs://…, az://…. "
            "Else ROTA_OBJECTS or rota.toml.",
        ),
    ] = None,
    artifact_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Size limit of an artifact. (default: 1Gi)")
    ] = None,
    artifact_days: Annotated[
        str | None, typer.Option(metavar="DAYS", help="How long artifacts are kept; 0 is forever. (default: 0)")
    ] = None,
    growth_limit: Annotated[
        str | None,
        typer.Option(metavar="N", help="Tasks that running tasks may submit into one graph. (default: 10000)"),
    ] = None,
    log_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Output kept of an attempt whose task asks for nothing: its beginning and its end. (default: 1Mi)",
        ),
    ] = None,
    log_inline: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Move longer output to the object store. (default: 256Ki)"),
    ] = None,
    secrets_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with the master keys for tenants' secrets. Else ROTA_SECRETS_KEY_FILE."
        ),
    ] = None,
    webhooks_private: Annotated[
        bool, typer.Option("--webhooks-private", help="Allow webhooks to private addresses and any port.")
    ] = False,
    metrics_private: Annotated[
        bool, typer.Option("--metrics-private", help="Answer /metrics only to operators' tokens.")
    ] = False,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Address that people's browsers use, if a proxy stands before the server: https://rota.example.org.",
        ),
    ] = None,
) -> dict[str, Any]:
    """Fields of `Settings`."""
    try:
        stored = object_options(read_file(None))
    except SettingsError as error:
        raise wrong("rota.toml", str(error)) from None
    return {
        "objects": setting("objects", objects, ""),
        "objects_options": stored,
        "artifact_limit_bytes": size_setting("artifact_limit", artifact_limit, "1Gi"),
        "growth_limit": count_setting("growth_limit", growth_limit, "10000", most=1_000_000),
        "artifact_days": days_setting("artifact_days", artifact_days, "0"),
        "log_limit_bytes": size_setting("log_limit", log_limit, "1Mi"),
        "log_inline_bytes": size_setting("log_inline", log_inline, "256Ki"),
        "secrets_key": str(secrets_key) if secrets_key else os.environ.get("ROTA_SECRETS_KEY_FILE", ""),
        "webhooks_private": webhooks_private or os.environ.get("ROTA_WEBHOOKS_PRIVATE") == "1",
        "public_url": _address(setting("public_url", public_url, "")),
        "oidc": oidc_setting(),
        "metrics_private": metrics_private or os.environ.get("ROTA_METRICS_PRIVATE") == "1",
    }


def _address(text: str) -> str:
    """Of browsers, without a path, since pages and cookies are for the whole host."""
    parts = urlsplit(text)
    if text and (parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query):
        raise wrong("--public-url", f"{text!r} is not an address like https://rota.example.org, without a path")
    return text.rstrip("/")
