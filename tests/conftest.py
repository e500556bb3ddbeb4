"""Fixtures every folder shares: a real PostgreSQL, a fresh database, and a small running cluster."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.capabilities import (
    count_exercised,
    pytest_runtest_logreport,
    pytest_sessionfinish,
    pytest_terminal_summary,
)
from tests.harness.cluster import CALM, Cluster, ended_nodes
from tests.harness.postgres import TestPostgres

__all__ = [
    "pytest_runtest_logreport",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
]

MODULES = Path(__file__).parent / "modules"

# Whoever runs the tests may ignore Ctrl-C, as a shell does for what runs in its background, or a closed terminal, as
# nohup does, or block both, as services do.
# Programs pass that on to those they start, and ours must hear it.
signal.pthread_sigmask(signal.SIG_SETMASK, ())
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long an example takes says more about what else runs on the machine than about the property.
settings.register_profile("rota", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rota")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    count_exercised(report)
    if report.failed and (ended := ended_nodes()):
        report.longrepr = f"{ended}\n\n{report.longreprtext}"
    return report


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestPostgres]:
    server = TestPostgres(tmp_path_factory.mktemp("pg"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def database(postgres: TestPostgres) -> str:
    """URL of a fresh database with the schema and the transition trigger."""
    return postgres.create()


@pytest.fixture(scope="module")
def cluster(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One server node and one worker, shared by the tests of a module."""
    with Cluster(postgres.create(), tmp_path_factory.mktemp("cluster"), time_scale=CALM, modules=MODULES) as running:
        running.add_server()
        running.add_worker()
        yield running
