"""The entry point of `rota`. `--version` is answered before anything is imported; `rota.cli.app` runs the rest.

`rota up` announces its start before anything is imported, so that a command typed right after it waits for the profile.
"""

from __future__ import annotations

import sys

from rota import __version__
from rota.client.transport.starting import OWN_START, profile_path


def main() -> None:
    """Run the command line of this process and end it."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    if arguments in (["--version"], ["-V"]):
        sys.stdout.write(f"rota {__version__}\n")
        return 0
    if arguments[:1] == ["up"] and not {"-h", "--help"} & set(arguments):
        OWN_START.begin(profile_path())
    try:
        from rota.cli import app  # noqa: PLC0415 - slow: scripts ask for the version often

        return app.run(arguments)
    except KeyboardInterrupt:
        return 130
    finally:
        OWN_START.over()
