"""Row 43: a node whose operator did not say otherwise takes no webhook to its own side."""

from __future__ import annotations

import pytest

from tests.api.served import Said, Served, problem


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://2130706433/", "http://[::ffff:10.0.0.1]/", "https://h:22/"]
)
def test_row_43_webhooks_go_to_public_addresses_only(served: Served, url: str) -> None:
    answer = served.send("POST", "/v1/webhooks", {"url": url})
    assert problem(answer) == Said(422, "forbidden-target", (("/url", "forbidden-target"),))
