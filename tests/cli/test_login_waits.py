"""What waits for the browser on this machine believes one answer only, and keeps its secrets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import httpx
import pytest

from rota.cli.login.listener import Listener
from rota.cli.login.signing_in import has_browser
from rota.cli.shell import expiry_hint, output


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as listening:
        yield listening


def _get(listener: Listener, path: str) -> httpx.Response:
    return httpx.get(listener.address.rstrip("/") + path, trust_env=False)


def test_only_an_answer_with_its_own_state_counts(listener: Listener) -> None:
    for path in (
        "/favicon.ico",
        "/",
        "/?code=stolen",
        "/?code=stolen&state=",
        f"/?code=stolen&state={listener.state}x",
        f"/other?code=stolen&state={listener.state}",
        f"/?state={listener.state}",
        "/?" + "&".join(f"a{number}=b" for number in range(50)),
        "/?code=%ff%fe&state=%c3%a4",
    ):
        assert _get(listener, path).status_code == 404
        assert listener.answer is None
    assert httpx.post(f"{listener.address}?code=x&state={listener.state}", trust_env=False).status_code == 404
    assert listener.answer is None
    shown = _get(listener, f"/?code=mine&state={listener.state}")
    assert "You can close this window" in shown.text
    assert "mine" not in shown.text
    assert shown.headers["referrer-policy"] == "no-referrer"
    _get(listener, f"/?code=second&state={listener.state}")
    answer = listener.wait(30.0)
    assert answer is not None
    assert answer.code == "mine"
    assert "mine" not in repr(answer)


def test_a_refusal_has_no_code(listener: Listener) -> None:
    shown = _get(listener, f"/?error=access_denied&code=x&state={listener.state}")
    assert "Refused" in shown.text
    answer = listener.wait(30.0)
    assert answer is not None
    assert answer.code is None


def test_connections_that_say_nothing_hold_nobody_up(listener: Listener) -> None:
    port = int(listener.address.rsplit(":", 1)[1].rstrip("/"))
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
    half = socket.create_connection(("127.0.0.1", port))
    half.sendall(b"GET /?code=x")
    assert _get(listener, f"/?code=mine&state={listener.state}").status_code == 200
    for one in [*silent, half]:
        one.close()


def test_it_listens_on_this_machine_only(listener: Listener) -> None:
    assert listener.address.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("environment", "platform", "found"),
    [
        ({}, "linux", False),
        ({"SSH_CONNECTION": "x"}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "w"}, "linux", True),
        ({"BROWSER": "firefox"}, "linux", True),
        ({}, "darwin", True),
        ({"SSH_CONNECTION": "x"}, "darwin", False),
    ],
)
def test_a_browser_opens_where_its_user_sees_it(environment: dict[str, str], platform: str, found: bool) -> None:
    assert has_browser(environment, platform) is found


# ---- a token that expires soon -------------------------------------------------------------------------------------------


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    notes: list[str] = []
    monkeypatch.setattr(output, "note", notes.append)
    monkeypatch.setenv("ROTA_PROFILE", str(tmp_path / "new" / "profile.toml"))
    monkeypatch.delenv("ROTA_TOKEN", raising=False)
    return notes


def _at_terminal(monkeypatch: pytest.MonkeyPatch, yes: bool) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: yes, raising=False)


def test_a_person_hears_once_a_day_that_the_token_expires(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _at_terminal(monkeypatch, True)
    for _ in range(3):
        expiry_hint.watch(lambda: None)
        expiry_hint.watch(lambda: "2030-01-31T09:00:00+00:00")
        expiry_hint.say_if_due()
    when = datetime.fromisoformat("2030-01-31T09:00:00+00:00").astimezone().strftime("%Y-%m-%d %H:%M")
    assert said == [f"your token expires {when}; rota login gets a new one"]


def test_a_program_hears_nothing_of_it(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _at_terminal(monkeypatch, False)
    expiry_hint.watch(lambda: "2030-01-31T09:00:00+00:00")
    expiry_hint.say_if_due()
    _at_terminal(monkeypatch, True)
    expiry_hint.say_if_due()
    assert said == []


def test_a_hint_that_cannot_be_noted_is_not_given(
    said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "new").write_text("a file, not a folder")
    _at_terminal(monkeypatch, True)
    expiry_hint.watch(lambda: "2030-01-31T09:00:00+00:00")
    expiry_hint.say_if_due()
    assert said == []


def test_a_hint_is_due_a_day_after_the_last_one_whatever_the_clock_did() -> None:
    assert expiry_hint.is_due(None, 1000.0)
    assert not expiry_hint.is_due(1000.0, 1000.0 + 24 * 3600 - 1)
    assert expiry_hint.is_due(1000.0, 1000.0 + 24 * 3600)
    assert expiry_hint.is_due(2000.0, 1000.0)
    assert "ROTA_TOKEN" in expiry_hint.hint("what?", {"ROTA_TOKEN": "x"})
