"""`rota --tenant NAME COMMAND …`: the tenant that a command line is to, before the command's own options.

It is read before the command tree is built, and put into ROTA_TENANT, which every client of this process reads.
"""

from __future__ import annotations

import os

from rota.cli.shell import checks

_OPTION = "--tenant"


def choose_tenant(arguments: list[str]) -> list[str]:
    """The arguments without a first `--tenant NAME`, which is then the tenant of this process."""
    first = next(iter(arguments), "")
    if first.startswith(f"{_OPTION}="):
        name, rest = first.removeprefix(f"{_OPTION}="), arguments[1:]
    elif first == _OPTION and len(arguments) > 1:
        name, rest = arguments[1], arguments[2:]
    else:
        return arguments
    os.environ["ROTA_TENANT"] = checks.word(_OPTION, name)
    return rest
