"""`rota --tenant NAME --ca FILE COMMAND …`: whom a command line is to and what it trusts, before its own options.

They are read before the command tree is built, and put into variables which every client of this process reads.
"""

from __future__ import annotations

import os

from rota.cli.shell import checks

_VARIABLES = {"--tenant": "ROTA_TENANT", "--ca": "ROTA_CA"}


def choose_tenant(arguments: list[str]) -> list[str]:
    """The arguments without a first `--tenant NAME` and `--ca FILE`, which then hold for this process."""
    while arguments:
        option, equals, value = arguments[0].partition("=")
        if option not in _VARIABLES or not (equals or len(arguments) > 1):
            break
        value, arguments = (value, arguments[1:]) if equals else (arguments[1], arguments[2:])
        os.environ[_VARIABLES[option]] = checks.word(option, value) if option == "--tenant" else value
    return arguments
