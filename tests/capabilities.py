"""Which of a machine's capabilities the tests really used: said at the end of a run, and demanded of a whole one.

A test that has used one calls `exercised("sandbox")` after its last assertion. It counts if the test passes. Only a run
of everything is held to `MANDATORY`; a part of the tests, chosen by path or word, is not.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.config import Config
from _pytest.terminal import TerminalReporter

from rota.execute.linux import cgroup_limits

MANDATORY = (
    "sandbox",
    "limit-memory",
    "limit-pids",
    "limit-cpu",
    "limit-io",
    "limit-disk",
    "devices",
    "container",
    "object-store",
)

_PROPERTY = "exercised"
_EVERYTHING = ("", "not long")  # the marks that `make test` runs
_by_this_test: set[str] = set()
_by_all_tests: set[str] = set()


def exercised(*names: str) -> None:
    unknown = set(names) - set(MANDATORY)
    assert not unknown, f"{sorted(unknown)} are not in the list of capabilities"
    _by_this_test.update(names)


def count_exercised(report: pytest.TestReport) -> None:
    """What a test has used counts if it passed."""
    if report.when == "call" and report.passed:
        report.user_properties += [(_PROPERTY, name) for name in sorted(_by_this_test)]
    if report.when == "call":
        _by_this_test.clear()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In the process that speaks to the person: reports of parallel workers arrive here too."""
    _by_all_tests.update(str(value) for name, value in report.user_properties if name == _PROPERTY)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK and is_everything(session.config) and skipped():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: Config) -> None:
    if not is_everything(config) and not _by_all_tests:
        return
    terminalreporter.section("capabilities")
    told = Path("/proc/self/mountinfo").read_text()
    v1 = sorted(set(cgroup_limits.mounts_of(told)[1]) & {"memory", "pids", "cpu", "blkio"})
    terminalreporter.line(f"{'control groups':16}{'v1 for ' + ', '.join(v1) if v1 else 'v2'}")
    for name in MANDATORY:
        terminalreporter.line(f"{name:16}{'exercised' if name in _by_all_tests else 'not exercised'}")
    if is_everything(config) and skipped():
        terminalreporter.line(f"mandatory and not exercised: {', '.join(skipped())}", red=True)


def skipped() -> list[str]:
    return [name for name in MANDATORY if name not in _by_all_tests]


def is_everything(config: Config) -> bool:
    options = config.option
    chosen = options.keyword or options.deselect or options.collectonly or hasattr(config, "workerinput")
    chosen = chosen or getattr(options, "lf", False)  # not there without the cache's plugin
    return config.args_source is Config.ArgsSource.TESTPATHS and not chosen and options.markexpr in _EVERYTHING
