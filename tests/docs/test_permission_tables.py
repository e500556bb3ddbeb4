"""docs/accounts.md shows the table of permissions as it is in code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    script = ROOT / "scripts/permission-tables"
    ran = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    page = (ROOT / "docs/accounts.md").read_text()
    assert "| POST `/v1/tasks` | `tasks:submit` | yes | yes |" in page
