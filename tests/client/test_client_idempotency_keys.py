"""An idempotency key that can't be one is refused before anything is sent, however the task is submitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota import Client, ManifestError
from tests.client.stub_server import StubServer

RIGHT = "an idempotency key has 1 to 255 printable ASCII characters and no space at either end"
WRONG = [
    ("", "this one is empty"),
    ("  ", "this one has only spaces"),
    ("a\nb", r"this one is 'a\nb'"),
    (" a", "this one is ' a'"),
    ("clé", "this one is 'clé'"),
    ("x" * 256, "this one has 256"),
]


@pytest.mark.parametrize(("key", "said"), WRONG)
def test_python_refuses_the_key_and_says_what_is_right(server: StubServer, client: Client, key: str, said: str) -> None:
    with pytest.raises(ValueError, match="idempotency_key: an idempotency key has") as caught:
        client.submit(["true"], idempotency_key=key)
    assert str(caught.value) == f"idempotency_key: {RIGHT}; {said}"
    assert server.received == []


def test_a_manifest_refuses_the_key_with_its_line(server: StubServer, client: Client, tmp_path: Path) -> None:
    manifest = tmp_path / "rota.yaml"
    manifest.write_text('command: ["true"]\nidempotency_key: ""\n')
    with pytest.raises(ManifestError, match=rf"rota.yaml:2:\d+: idempotency_key: {RIGHT}; this one is empty"):
        client.submit_manifest(manifest)
    assert server.received == []
