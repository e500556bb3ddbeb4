"""Shrinks many pictures, one task each, as many concurrently as the nodes have resources. With `rota up` running:

    python examples/images/resize.py small/ *.ppm

Each task receives one picture and the script that shrinks it, and stores the small picture as its output.
"""

import sys
from pathlib import Path

from rota import Client, TaskSpec

target, pictures = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
target.mkdir(exist_ok=True)
with Client() as rota:
    handles = rota.submit_many(
        TaskSpec(
            name=f"shrink {picture.name}",
            upload=Path(__file__).with_name("shrink.py"),
            interpreter=["python3"],
            args=["picture.ppm", "small.ppm", "4"],
            files={"picture.ppm": picture},
            outputs=["small.ppm"],
            memory="128M",
        )
        for picture in pictures
    )
    for picture, handle in zip(pictures, handles, strict=True):
        task = handle.wait()
        print(f"{picture.name}: {task.state}")
        for output in task.outputs:
            (target / picture.name).write_bytes(rota.artifacts.read(output.artifact))
