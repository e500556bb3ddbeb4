"""For tests of manifests: text in, the requests or the faults out."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec

from rota.client.errors import ManifestError
from rota.client.manifest.load import Manifest, read_manifest

ROOT = Path(__file__).parents[2]


def manifest(text: str | bytes, folder: Path = ROOT, file: str = "rota.yaml", **variables: str) -> Manifest:
    data = text if isinstance(text, bytes) else dedent(text).encode()
    return read_manifest(data, file=file, folder=folder, variables=variables)


def sent(found: Manifest) -> list[dict[str, Any]]:
    """Each task as it would be sent."""
    return [msgspec.json.decode(msgspec.json.encode(task)) for task in found.tasks]


def faults(text: str | bytes, folder: Path = ROOT, file: str = "rota.yaml", **variables: str) -> list[str]:
    try:
        manifest(text, folder, file, **variables)
    except ManifestError as error:
        return str(error).split("\n")
    return []
