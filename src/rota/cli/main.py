"""The entry point of `rota`: runs one command line and turns any trouble into one line and a code.

No traceback and no box ever reaches a user from here. What each kind of trouble means is in `trouble.py`;
commands raise and never exit by themselves, except to pass on a task's own exit code.
"""

from __future__ import annotations

import os
import sys

from rota import __version__


def main() -> None:
    """Run the command line of this process and end it."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; the exit code."""
    if arguments in (["--version"], ["-V"]):
        # Answered before anything is imported: scripts ask this often.
        sys.stdout.write(f"rota {__version__}\n")
        return 0
    try:
        from rota.cli.app import build

        code = build(arguments[0] if arguments else None)(arguments, prog_name="rota", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        from rota.cli.shell import output

        output.forget_reader()
        return 0
    except Exception as error:
        # The one place that may catch everything: here every trouble becomes a line and a code.
        from rota.cli.shell import trouble

        if "ROTA_TRACEBACK" in os.environ:
            raise
        return trouble.report(error, arguments)
