"""`rota login` and `rota logout` as a person uses them: a real server node, and a browser that presses the buttons."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from rota.cli.login import signing_in
from rota.cli.main import run
from rota.cli.shell import output
from rota.client.transport.profile import Profile, read_profile, write_profile
from tests.api.accounts.browser import Browser
from tests.api.accounts.people import People

Step = Callable[[str], object]


@dataclass
class Shell:
    """A terminal with a profile of its own. `window`: what the user does in the browser that opens."""

    people: People
    monkeypatch: pytest.MonkeyPatch
    capfd: pytest.CaptureFixture[str]
    profile: Path
    notes: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    troubles: list[Exception] = field(default_factory=list)

    def run(self, *arguments: str, fails: int = 0) -> str:
        """Gives stdout, or with `fails` what the error says; notes are in `notes`."""
        self.capfd.readouterr()
        code = run(list(arguments))
        for thread in self.threads:
            thread.join(60)
        captured = self.capfd.readouterr()
        assert self.troubles == []
        assert code == fails, captured.err
        return captured.err if fails else captured.out

    def window(self, does: Step | None) -> None:
        """In a thread, as a browser is a process of its own. None: there is no browser."""

        def opened(address: str) -> bool:
            if does is None:
                return False

            def used() -> None:
                try:
                    does(address)
                except (AssertionError, httpx.HTTPError) as error:
                    self.troubles.append(error)

            self.threads.append(threading.Thread(target=used))
            self.threads[-1].start()
            return True

        self.monkeypatch.setattr(signing_in.webbrowser, "open", opened)

    def while_waiting(self, does: Step) -> None:
        """What the user does before the program asks again; given the code that they read."""
        shell = self

        class Clock:
            monotonic = staticmethod(signing_in.time.monotonic)

            @staticmethod
            def sleep(_seconds: float) -> None:
                [shown] = [note for note in shell.notes if "type the code" in note]
                does(shown.rpartition(" ")[2])

        self.monkeypatch.setattr(signing_in, "time", Clock)


@pytest.fixture
def shell(acme: People, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Shell:
    made = Shell(acme, monkeypatch, capfd, tmp_path / "rota" / "profile.toml")
    monkeypatch.setenv("ROTA_PROFILE", str(made.profile))
    monkeypatch.setenv("ROTA_SERVER", acme.served.url)
    monkeypatch.setenv("BROWSER", "any")
    monkeypatch.setenv("COLUMNS", "300")
    for name in ("ROTA_TOKEN", "ROTA_TENANT"):
        monkeypatch.setenv(name, "")
    told = output.note

    def note(text: str) -> None:
        made.notes.append(text)
        told(text)

    monkeypatch.setattr(output, "note", note)
    monkeypatch.setattr(signing_in, "WAIT_SECONDS", 60.0)
    acme.served.ask("delete from sign_in_attempts where key like 'login:%'")
    return made


@pytest.fixture
def ann(acme: People) -> str:
    return acme.add_user("member")


def pressing(browser: Browser, button: str) -> Step:
    """Opens the address, presses a button, and follows the redirect to the program."""

    def does(address: str) -> None:
        led = browser.decide(browser.get(address), button)
        shown = httpx.get(led.headers["location"], trust_env=False)
        assert "You can close this window" in shown.text

    return does


def whoami(people: People, token: str | None) -> dict[str, Any]:
    return dict(people.send("GET", "/v1/whoami", token=token or "none").json())


def test_from_nothing_to_a_task_and_out_again(acme: People, ann: str, shell: Shell) -> None:
    browser = Browser.of(acme, ann)
    shell.window(pressing(browser, "allow"))
    said = shell.run("login", "--name", "laptop")
    assert f"signed in as {ann} at {acme.served.url}, tenant {acme.tenant}, with the token cli-laptop until 2" in said
    assert any(note.startswith("your browser opens: ") and "/ui/login?" in note for note in shell.notes)
    saved = read_profile(shell.profile)
    assert (saved.servers, saved.login, saved.before) == ((acme.served.url,), ann, None)
    assert saved.token is not None
    assert saved.token not in said + "".join(shell.notes)
    assert shell.profile.stat().st_mode & 0o777 == 0o600
    shown = shell.run("whoami")
    for part in (ann, "token cli-laptop", "expires", acme.served.url, f"{shell.profile} (rota login)"):
        assert part in shown
    assert int(shell.run("submit", "--", "true")) > 0
    out = shell.run("logout")
    assert "the token is revoked, and removed from" in out
    assert read_profile(shell.profile).token is None
    assert whoami(acme, saved.token)["status"] == 401
    assert "nobody is signed in" in shell.run("logout")
    assert "run `rota login`" in shell.run("whoami", fails=4)


def test_a_refusal_in_the_browser_is_said_and_saves_nothing(acme: People, ann: str, shell: Shell) -> None:
    shell.window(pressing(Browser.of(acme, ann), "refuse"))
    assert shell.run("login", fails=4).splitlines()[-1] == "rota: the login was refused in the browser"
    assert not shell.profile.exists()


def test_the_address_is_for_whoever_began_the_login(acme: People, ann: str, shell: Shell) -> None:
    """Another program sends a code of its own, with another state: the login waits on for its user."""
    browser = Browser.of(acme, ann)

    def does(address: str) -> None:
        led = browser.decide(browser.get(address), "allow")
        right = httpx.URL(led.headers["location"])
        forged = right.copy_merge_params({"state": "x" * 32, "code": "stolen"})
        assert httpx.get(forged, trust_env=False).status_code == 404
        assert httpx.get(right, trust_env=False).status_code == 200

    shell.window(does)
    shell.run("login")
    assert whoami(acme, read_profile(shell.profile).token)["user"] == ann


def test_with_a_code_on_another_machine(acme: People, ann: str, shell: Shell) -> None:
    browser = Browser.of(acme, ann)
    shell.while_waiting(browser.allow_code)
    said = shell.run("login", "--device", "--name", "box", "--for", "7d")
    assert f"signed in as {ann}" in said
    assert any(f"{acme.served.url}/ui/device" in note for note in shell.notes)
    assert not any("/ui/login" in note for note in shell.notes)
    assert whoami(acme, read_profile(shell.profile).token)["credential"] == "token cli-box"


def test_a_code_that_is_refused_or_late_says_so(acme: People, ann: str, shell: Shell) -> None:
    browser = Browser.of(acme, ann)
    shell.while_waiting(lambda code: browser.allow_code(code, "refuse"))
    assert "the login was refused in the browser" in shell.run("login", "--device", fails=4)
    shell.notes.clear()
    shell.while_waiting(lambda _: acme.served.ask("update cli_logins set expires_at = now() where decided_at is null"))
    assert "nobody allowed this login in time" in shell.run("login", "--device", fails=6)
    assert not shell.profile.exists()


def test_where_no_browser_opens_both_ways_are_shown(acme: People, ann: str, shell: Shell) -> None:
    """The user of this one copies the address into a browser on the same machine."""
    browser = Browser.of(acme, ann)
    told = output.note

    def note(text: str) -> None:
        told(text)
        if text.startswith("waiting until"):
            [address] = [one for one in shell.notes if "/ui/login?" in one]
            shell.threads.append(
                threading.Thread(target=pressing(browser, "allow"), args=(address.rpartition(" ")[2],))
            )
            shell.threads[-1].start()

    shell.monkeypatch.setattr(output, "note", note)
    shell.window(None)
    shell.run("login")
    assert any("or open in any browser" in one and "type the code" in one for one in shell.notes)
    assert read_profile(shell.profile).login == ann


def test_ctrl_c_changes_nothing(acme: People, shell: Shell) -> None:
    def interrupted(_code: str) -> None:
        raise KeyboardInterrupt

    write_profile(Profile((acme.served.url,), "mine"), shell.profile)
    before = shell.profile.read_bytes()
    shell.while_waiting(interrupted)
    assert "you ended the login; nothing is changed" in shell.run("login", "--device", fails=130)
    assert shell.profile.read_bytes() == before
    assert [one.name for one in shell.profile.parent.iterdir()] == ["profile.toml"]


def test_what_is_typed_wrong_is_said_before_anything_is_sent(shell: Shell) -> None:
    for arguments, said in (
        (["--server", "rota.example.org"], "--server"),
        (["--server", "http+unix:/run/rota"], "a browser cannot reach a socket"),
        (["--for", "soon"], "--for"),
        (["--name", "my laptop"], "--name"),
        (["--tenant", "a/b"], "--tenant"),
    ):
        assert said in shell.run("login", *arguments, fails=2)
    assert "from 1m to 366d" in shell.run("login", "--device", "--for", "9999d", fails=4)
    shell.monkeypatch.setenv("ROTA_SERVER", "")
    assert "rota login --server URL" in shell.run("login", fails=2)
    shell.profile.parent.mkdir()
    shell.profile.write_text("server = ")
    assert "not TOML" in shell.run("login", fails=2)
    assert shell.profile.read_text() == "server = "


def test_a_server_that_is_away_is_said(shell: Shell) -> None:
    assert "cannot be reached" in shell.run("login", "--server", "http://127.0.0.1:9", fails=5)
    assert not shell.profile.exists()


def test_a_profile_of_rota_up_is_kept_and_comes_back(acme: People, ann: str, shell: Shell) -> None:
    write_profile(Profile((acme.served.url,), acme.admin), shell.profile)
    assert "give --yes to revoke it" in shell.run("logout", fails=2)
    assert whoami(acme, acme.admin)["role"] == "admin"
    shell.window(pressing(Browser.of(acme, ann), "allow"))
    shell.run("login")
    [kept] = [note for note in shell.notes if "is kept in" in note]
    assert "`rota logout` puts it back" in kept
    assert ann in shell.run("whoami")
    assert "is back" in shell.run("logout")
    assert read_profile(shell.profile).token == acme.admin
    assert whoami(acme, acme.admin)["role"] == "admin"


def test_a_token_that_somebody_wrote_into_the_profile_is_revoked_with_yes(acme: People, shell: Shell) -> None:
    token = acme.user("member")
    write_profile(Profile((acme.served.url,), token), shell.profile)
    assert "the token is revoked" in shell.run("logout", "--yes")
    assert whoami(acme, token)["status"] == 401


def test_a_second_login_ends_the_first(acme: People, ann: str, shell: Shell) -> None:
    shell.window(pressing(Browser.of(acme, ann), "allow"))
    shell.run("login", "--name", "one")
    first = read_profile(shell.profile).token
    shell.run("login", "--name", "two")
    second = read_profile(shell.profile).token
    assert whoami(acme, first)["status"] == 401, "nobody could have revoked it any more"
    shell.run("login", "--name", "two")
    assert whoami(acme, second)["status"] == 401
    assert any("your earlier token cli-two has ended" in note for note in shell.notes)
    assert whoami(acme, read_profile(shell.profile).token)["user"] == ann


def test_a_login_that_cannot_be_saved_leaves_no_token(acme: People, ann: str, shell: Shell) -> None:
    browser = Browser.of(acme, ann)

    def does(address: str) -> None:
        shell.profile.parent.write_text("a file, not a folder")
        pressing(browser, "allow")(address)

    shell.window(does)
    assert "cannot be written" in shell.run("login", fails=2)
    rows = acme.served.ask("select revoked_at is not null from tokens where user_name = $1", ann)
    assert rows == [(True,)]


def test_variables_that_win_over_the_profile_are_named(acme: People, ann: str, shell: Shell) -> None:
    shell.window(pressing(Browser.of(acme, ann), "allow"))
    shell.monkeypatch.setenv("ROTA_TOKEN", "other")
    shell.run("login")
    assert any("ROTA_TOKEN is set here and wins" in note for note in shell.notes)
    assert "unset it and run `rota login`" in shell.run("whoami", fails=4)
    shell.run("logout")
    assert any("ROTA_TOKEN is set here and is still used" in note for note in shell.notes)


def test_logout_without_the_server_removes_the_token_and_says_what_is_left(shell: Shell) -> None:
    write_profile(Profile(("http://127.0.0.1:9",), "t", login="ann"), shell.profile)
    assert "the token is removed from" in shell.run("logout")
    assert any("may still be valid" in note and "cannot be reached" in note for note in shell.notes)
    assert read_profile(shell.profile) == Profile(("http://127.0.0.1:9",), None)


def test_logout_with_a_token_that_is_good_no_more_is_a_logout(acme: People, shell: Shell) -> None:
    write_profile(Profile((acme.served.url,), "rota_old", login="ann"), shell.profile)
    assert "signed out" in shell.run("logout")
    assert shell.notes == []


def test_a_login_for_another_tenant(acme: People, other: People, ann: str, shell: Shell) -> None:
    acme.give(ann, "viewer", tenant=other.tenant)
    shell.window(pressing(Browser.of(acme, ann), "allow"))
    shell.run("login", "--tenant", other.tenant)
    assert json.loads(shell.run("whoami", "-o", "json"))["tenant"] == other.tenant
