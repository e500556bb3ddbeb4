"""A small system made of busybox alone, as a folder and as an image of the machine's own podman."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

IMAGE = "localhost/rota-tests:1"
APPLETS = ("sh", "cat", "echo", "env", "head", "id", "ls", "pwd", "sleep", "tail", "touch")


def podman(*words: str, given: bytes = b"") -> str:
    return subprocess.run(["podman", *words], input=given, capture_output=True, check=True).stdout.decode()


def unpack_busybox(root: Path) -> None:
    """A whole system in one program."""
    found = shutil.which("busybox")
    assert found is not None, "there is no busybox here: scripts/install-test-tools"
    for folder in ("bin", "etc", "srv/team"):
        (root / folder).mkdir(parents=True)
    shutil.copy(found, root / "bin" / "busybox")
    for name in APPLETS:
        (root / "bin" / name).symlink_to("/bin/busybox")
    (root / "etc" / "who").write_text("a system of its own\n")


def import_image(root: Path) -> None:
    assert shutil.which("podman") is not None, "there is no podman here: scripts/install-test-tools"
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.add(root, arcname=".")
    podman("import", "-", IMAGE, given=file.getvalue())
