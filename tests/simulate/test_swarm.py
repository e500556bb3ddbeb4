"""Whole clusters in virtual time: every invariant at every event, under all faults, and quiescence after healing."""

from __future__ import annotations

import functools
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import cast

import pytest

from rota.cli.main import run as rota
from rota.cluster.leases import new_holder
from rota.settle import verdict
from rota.simulate.world import auditor, code_edits, ledger, limits, mutations, task_record, timekeeper
from rota.simulate.world.run import run_seed
from rota.simulate.world.swarm import prove, run_swarm

QUICK = [
    "ack-before-commit",
    "idempotency-key-stored-after-task",
    "app-clock-for-expiry",
    "dependent-released-twice",
    "ttl-equals-renew-period",
    "identity-is-host",
    "thaw-without-adoption",
    "anyone-acknowledges",
    "restart-not-noticed",
    "settlement-not-repeated",
    "retry-count-reset",
    "poison-without-limit",
    "place-never-given-back",
    "cursor-before-runs",
    "missed-not-recorded",
    "fold-fired-twice",
    "paused-pool-goes-on",
    "pause-left-to-memory",
    "hold-claimed-of-all",
]


@pytest.mark.timeout(1_800)  # a minute on two free cores; beside other tests it gets a small part of them
def test_a_thousand_worlds_keep_every_promise() -> None:
    swarm = run_swarm(first=1, seeds=1_000, jobs=2, at_most=5)
    failed = [f"rota simulate swarm --replay {o.seed}   # {o.invariant}: {o.message}" for o in swarm.failed]
    assert not failed, "\n".join(failed)
    assert swarm.seeds == 1_000
    assert swarm.repeated == 20
    assert not swarm.never, "never happened, so never tested"


def test_a_big_task_that_starves_is_noticed() -> None:
    outcome = run_seed(72, bug="backfill-without-end")
    assert outcome.invariant == "I26", outcome
    assert not run_seed(72).invariant


@pytest.mark.parametrize("name", QUICK)
def test_a_known_bug_is_noticed(name: str) -> None:
    (proof,) = prove([name], first=1, jobs=1, most_seeds=100)
    assert proof.seeds, f"{name} survived"
    assert proof.invariant != "crash", proof.message


def test_a_seed_gives_the_same_fingerprint_under_every_hash_seed() -> None:
    runs = [_fingerprints(hash_seed) for hash_seed in ("1", "2")]
    assert runs[0] == runs[1]
    assert len(runs[0].split()) == 8


def _fingerprints(hash_seed: str) -> str:
    code = "from rota.simulate.world.run import run_seed\nfor s in range(40, 48): print(run_seed(s).fingerprint)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    ).stdout


def test_a_replay_tells_the_story_and_how_it_ended(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert rota(["simulate", "swarm", "--replay", "1", "--bug", "dependent-released-twice"]) == 1
    story = capfdbinary.readouterr().out.decode()
    assert "leads pool 1 in epoch" in story
    assert re.search(r"ends after \d+ events: I12 task \d+ is released again", story)


def test_a_failing_swarm_prints_the_command_that_replays_it(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert rota(["simulate", "swarm", "--seeds", "8", "--jobs", "1", "--bug", "ack-before-commit"]) == 1
    assert "rota simulate swarm --replay 1 --bug ack-before-commit" in capfdbinary.readouterr().out.decode()


@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=mutations.NAMES)
def test_a_mutation_changes_the_code_and_is_undone(mutation: code_edits.Mutation) -> None:
    functions = [cast(FunctionType, inspect.unwrap(edit.function)) for edit in mutation.edits]
    originals = [function.__code__ for function in functions]
    with mutations.mutated(mutation.name):
        assert all(function.__code__ != original for function, original in zip(functions, originals, strict=True))
    assert all(function.__code__ is original for function, original in zip(functions, originals, strict=True))


def test_no_two_of_the_mutations_have_one_name() -> None:
    assert len(mutations.MUTATIONS) == len(mutations.BY_NAME)


def test_a_mutation_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = code_edits.Mutation("moved", "a line was moved", code_edits.Edit(new_holder, "return host", "return 1"))
    monkeypatch.setitem(mutations.BY_NAME, "moved", moved)
    with pytest.raises(
        code_edits.DoesNotFit, match=r"rewrite the mutation moved .*\n?.*cluster.leases.new_holder.* 0 times"
    ):
        run_seed(1, bug="moved")


def test_a_mutated_seed_leaves_nothing_behind() -> None:
    original = verdict._judge.__code__
    run_seed(3, bug="retry-count-reset")
    assert verdict._judge.__code__ is original


def test_edits_reach_methods_decorated_functions_and_closures() -> None:
    outer = _Outer()
    edits = (
        code_edits.Edit(_Outer.number, "inner() + 1", "inner() + 2"),
        code_edits.Edit(_Outer.greeting, "return super().greeting()", "return super().greeting() + '!'"),
        code_edits.Edit(_cached, "return number", "return -number"),
    )
    with code_edits.edited(edits):
        assert (outer.number(), outer.greeting(), _cached(1)) == (3, "hello!", -1)
    assert (outer.number(), outer.greeting(), _cached(2)) == (2, "hello", 2)


class _Base:
    def greeting(self) -> str:
        return "hello"


class _Outer(_Base):
    def number(self) -> int:
        one = 1

        def inner() -> int:
            return one

        return inner() + 1

    def greeting(self) -> str:
        return super().greeting()


@functools.cache
def _cached(number: int) -> int:
    return number


def test_the_auditor_shares_no_code_with_the_product() -> None:
    for module in (auditor, ledger, limits, task_record, timekeeper):
        imported = re.findall(r"^(?:from|import) (rota[.\w]*)", Path(str(module.__file__)).read_text(), re.MULTILINE)
        assert set(imported) <= {
            f"rota.simulate.world.{name}" for name in ("ledger", "limits", "sometimes", "task_record")
        }
