"""Keys of running attempts: signed by the cluster, and by nobody else."""

from __future__ import annotations

import pytest

from rota.attempt_key import AttemptKeys
from rota.model.secret import may_submit_in, names_in_spec

KEYS = AttemptKeys("of this cluster")


def test_a_key_names_its_attempt() -> None:
    key = KEYS.make(7, 2)
    assert key.startswith("rota_attempt_7_2_")
    assert KEYS.read(key) == (7, 2)
    assert KEYS.make(7, 3) != key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rota_attempt_7_2_",
        AttemptKeys("of another").make(7, 2),
        KEYS.make(7, 2).replace("_7_", "_8_"),
        KEYS.make(7, 2).replace("_2_", "_1_", 1),
        KEYS.make(7, 2) + "\n",
        KEYS.make(7, 2).replace("_7_", "_07_"),
        KEYS.make(7, 2).replace("_7_", f"_{2**63}_"),
        KEYS.make(7, 2).replace("_7_", "_٧_"),
    ],
)
def test_what_the_cluster_did_not_sign_is_no_key(text: str) -> None:
    assert KEYS.read(text) is None


def test_the_head_of_a_spec_says_what_a_start_needs() -> None:
    assert (may_submit_in('{"command":["true"]}'), names_in_spec('{"command":["true"]}')) == (False, [])
    assert names_in_spec('{"secrets":["A","B"],"command":["true"]}') == ["A", "B"]
    both = '{"may_submit":true,"secrets":["A"],"command":["true"]}'
    assert (may_submit_in(both), names_in_spec(both)) == (True, ["A"])
    alone = '{"may_submit":true,"env":{"secrets":"[x]"},"command":["true"]}'
    assert (may_submit_in(alone), names_in_spec(alone)) == (True, [])
    assert not may_submit_in('{"command":["{\\"may_submit\\":true"]}')
