"""The same events give the same decisions, on any machine, under any hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.decide.scenario import play

ROOT = Path(__file__).parents[2]


def test_decisions_do_not_depend_on_the_hash_seed() -> None:
    first, second = (_digests_under(seed) for seed in ("0", "4242"))
    assert first == second
    assert len(set(first.split())) == 3, "three seeds, three histories: the digest sees a difference"


def test_decisions_do_not_depend_on_what_the_process_did_before() -> None:
    assert play(3) == play(3)


def _digests_under(hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "tests.decide.scenario"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
