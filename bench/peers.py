"""Other task queues on the same machine in the same run, through a harness outside the project.

The harness is not part of the project: give its folder with --peers. Without it there are no ratios.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path


def run_peers(folder: Path, names: list[str], workloads: str, out: Callable[[dict[str, object]], None]) -> None:
    answer = subprocess.run(
        [str(folder / "run"), "-w", workloads, "-r", "1", *names],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    for line in answer.stdout.splitlines():
        try:
            out({"peer": True, **json.loads(line)})
        except ValueError:
            continue
    if answer.returncode != 0:
        out({"peer": True, "error": answer.stderr.strip()[-300:]})
