"""`rota up` takes what a single machine needs of `rota serve` and `rota worker`, and passes it on as it was typed."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main

from rota.cli.app import build
from rota.cli.operate import one_machine
from rota.cli.operate.one_machine import UpOptions
from tests.cli.conftest import Rota

# What a single machine does not need: it has one server node and one worker, which know each other and share all data.
ENCRYPTION, TRUST = {"--tls-cert", "--tls-key"}, {"--ca", "--insecure-http"}
OF_CLUSTERS = {
    "serve": {"--host", "--url", "--name", "--roles", "--tokens", "--trusted-proxies"} | ENCRYPTION | TRUST,
    "worker": {
        "--server",
        "--join",
        "--join-file",
        "--token",
        "--token-file",
        "--pool",
        "--name",
        "--stop-within",
        "--once",
        "--idle-exit",
    }
    | TRUST,
}


def options(command: str) -> set[str]:
    tree = typer.main.get_command(build(command))
    found = tree.commands[command]  # type: ignore[attr-defined]
    return {name for one in found.params for name in one.opts if name.startswith("--")} - {"--help"}


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_up_has_every_option_that_a_single_machine_needs(command: str) -> None:
    assert options(command) - options("up") == OF_CLUSTERS[command]


def test_up_has_no_option_of_its_own_that_neither_has() -> None:
    assert options("up") <= options("serve") | options("worker")


def test_what_was_typed_is_passed_on_to_the_process_that_obeys_it(
    rota: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[UpOptions] = []

    def remember(options: UpOptions) -> int:
        given.append(options)
        return 0

    monkeypatch.setattr(one_machine, "run_up", remember)
    server = ["--log-limit", "2Mi", "--webhooks-private", "--connections", "50", "--artifact-days", "3"]
    worker = ["--label", "zone=a", "--label", "disk=ssd", "--no-sandbox", "--reserve-disk", "1G", "--import", "tasks"]
    assert rota("up", "--data", str(tmp_path / "d"), *server, *worker).code == 0
    (options,) = given
    assert {" ".join(pair) for pair in (options.server[:2], options.worker[:2])} <= {
        "--artifact-days 3",
        "--import tasks",
    }
    assert sorted(options.server) == sorted(server)
    assert sorted(options.worker) == sorted(worker)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--log-limit", "much", "--log-limit: 'much' is not a size"),
        ("--artifact-days", "-1", "--artifact-days: it is a whole number of days from 0 to 36,500, not '-1'"),
        ("--connections", "0", "--connections: it is a whole number from 1 to 1,000,000, not '0'"),
        ("--stall-timeout", "2h", "--stall-timeout: it is a duration from 100ms to 1h, not '2h'"),
        ("--reserve-disk", "x", "--reserve-disk"),
    ],
)
def test_up_refuses_nonsense_before_it_starts_anything(
    rota: Rota, tmp_path: Path, option: str, value: str, said: str
) -> None:
    ran = rota("up", "--data", str(tmp_path / "data"), option, value)
    assert (ran.code, (tmp_path / "data" / "postgres").exists()) == (2, False)
    assert said in ran.err
