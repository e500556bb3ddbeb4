"""A command that is typed right after `rota up` waits for the profile; without a start nobody waits."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from rota.client.transport.starting import MOST_SECONDS, Start, await_start


def never(seconds: float) -> None:
    raise AssertionError("it waited")


def test_nobody_waits_where_nothing_starts(tmp_path: Path) -> None:
    await_start(tmp_path / "none" / "profile.toml", never, sleep=never)
    (tmp_path / ".profile.toml.starting").write_text("1")  # of a start that was killed
    await_start(tmp_path / "profile.toml", never, sleep=never)


def test_a_start_is_waited_for_until_its_profile_is_written_and_leaves_nothing(tmp_path: Path) -> None:
    profile, said = tmp_path / "new" / "profile.toml", list[str]()
    start = Start()
    start.begin(profile)

    def write(_: float) -> None:
        profile.write_text("")
        start.over()

    await_start(profile, said.append, sleep=write)
    assert said == [f"waiting for `rota up` (pid {os.getpid()}), which is starting"]
    assert os.listdir(profile.parent) == ["profile.toml"]
    await_start(profile, never, sleep=never)


def test_a_start_that_fails_is_not_waited_for_any_longer_and_leaves_no_folder(tmp_path: Path) -> None:
    profile = tmp_path / "new" / "profile.toml"
    start, waits = Start(), threading.Event()
    start.begin(profile)
    waiting = threading.Thread(target=await_start, args=(profile, lambda _: waits.set()))
    waiting.start()
    assert waits.wait(MOST_SECONDS)
    start.over()
    waiting.join(MOST_SECONDS)
    assert not waiting.is_alive()
    assert not profile.parent.exists()


def test_the_wait_is_bounded(tmp_path: Path) -> None:
    start, now = Start(), [0.0]
    start.begin(tmp_path / "profile.toml")

    def sleep(seconds: float) -> None:
        now[0] += seconds

    await_start(tmp_path / "profile.toml", lambda _: None, clock=lambda: now[0], sleep=sleep)
    assert MOST_SECONDS <= now[0] < MOST_SECONDS + 1
    start.over()


def test_of_two_starts_for_one_profile_clients_wait_for_the_first(tmp_path: Path) -> None:
    first, second = Start(), Start()
    first.begin(tmp_path / "profile.toml")
    second.begin(tmp_path / "profile.toml")
    second.over()
    told: list[str] = []
    await_start(tmp_path / "profile.toml", told.append, sleep=lambda _: first.over())
    assert len(told) == 1


def test_where_nothing_can_be_written_a_start_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    start = Start()
    start.begin(tmp_path / "file" / "profile.toml")
    start.over()
