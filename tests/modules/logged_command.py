"""A command for fault tests: `logged_command.py LOG SECONDS FAILURES LATER_SECONDS`. It writes the execution log."""

from __future__ import annotations

import os
import sys
import time

from execution_log import executing


def main(log: str, seconds: float, failures: int, later_seconds: float) -> int:
    attempt = int(os.environ["ROTA_ATTEMPT"])
    with executing(log, int(os.environ["ROTA_TASK_ID"]), attempt):
        time.sleep(seconds if attempt == 1 else later_seconds)
    return 1 if attempt <= failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
