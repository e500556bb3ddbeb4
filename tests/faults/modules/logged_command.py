"""A command for fault tests: `logged_command.py LOG SECONDS FAILURES`. It writes the execution log."""

from __future__ import annotations

import os
import sys
import time

from execution_log import executing


def main(log: str, seconds: float, failures: int) -> int:
    attempt = int(os.environ["ROTA_ATTEMPT"])
    with executing(log, int(os.environ["ROTA_TASK_ID"]), attempt):
        time.sleep(seconds)
    return 1 if attempt <= failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
