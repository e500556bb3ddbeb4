"""The entry point of `rota`. `--version` is answered before anything is imported; `rota.cli.app` runs the rest."""

from __future__ import annotations

import sys

from rota import __version__


def main() -> None:
    """Run the command line of this process and end it."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    if arguments in (["--version"], ["-V"]):
        sys.stdout.write(f"rota {__version__}\n")
        return 0
    try:
        from rota.cli import app  # noqa: PLC0415 - slow: scripts ask for the version often

        return app.run(arguments)
    except KeyboardInterrupt:
        return 130
