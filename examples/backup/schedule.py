"""A backup every night at 02:30 in Berlin, daylight saving included. With `rota up` running:

    python examples/backup/schedule.py /etc/ssl

This makes the schedule, and one backup at once as a test. Then: rota schedule show|next|history nightly-backup
"""

import sys
from pathlib import Path

from rota import Client

folder = sys.argv[1]
with Client() as rota:
    rota.schedules.add(
        "nightly-backup",
        daily="02:30",
        zone="Europe/Berlin",
        missed="once",  # after several missed nights, one backup is enough
        overlap="skip",  # never two backups concurrently
        jitter="5m",  # not all backups of an organisation in the same second
        script=Path(__file__).with_name("backup.sh").read_text(),
        env={"FOLDER": folder},
        outputs=["backup-*.tar.gz"],
        attempts=3,
        cap="1h",
    )
    run = rota.schedules.run_now("nightly-backup")
    task = rota.handle((run.tasks or [])[0]).wait()
    print(f"task {task.id}: {task.state}")
    for output in task.outputs:
        print(output.name, output.artifact)
