"""Sends a script and two files to a node, and downloads the table that the script writes. Needs `rota up` running."""

from pathlib import Path

from rota import Client

HERE = Path(__file__).parent

with Client() as rota:
    task = rota.submit(
        upload=HERE / "count.sh",
        files={"texts/script": HERE / "count.sh", "texts/words": b"some words of our own\n"},
        outputs=["report/*.tsv"],
    ).wait()
    for output in task.outputs:
        print(output.name, output.artifact)
        print(rota.artifacts.read(output.artifact).decode())
