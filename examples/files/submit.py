"""A script and two files go to a node, a table comes back. Run it beside a running `rota up`."""

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
