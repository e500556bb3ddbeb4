"""What `rota login`, `rota logout` and `rota up` do to a profile that is there: nothing in it is lost."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from rota import ConfigurationError
from rota.client.transport.kept_profiles import put_back, save_login, save_own, stored_profile
from rota.client.transport.profile import Profile, origin_of_token, read_profile, write_profile

HERE = ("http://127.0.0.1:7070",)
AWAY = ("https://rota.example.org",)
ADMIN = Profile(HERE, "admin-token")
LOGIN = Profile(HERE, "login-token", login="ann")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rota" / "profile.toml"


def _files(path: Path) -> set[str]:
    return {one.name for one in path.parent.iterdir()}


def test_a_login_without_a_profile_writes_one_for_its_owner_alone(path: Path) -> None:
    assert save_login(LOGIN, path, stored_profile(path)).kept is None
    assert read_profile(path) == LOGIN
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "rota login" in origin_of_token({"ROTA_PROFILE": str(path)})


def test_the_token_of_rota_up_is_kept_and_comes_back(path: Path) -> None:
    write_profile(ADMIN, path)
    kept = save_login(LOGIN, path, ADMIN).kept
    assert kept == path.with_name("profile.127.0.0.1-7070.toml")
    assert read_profile(kept) == ADMIN
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    now = read_profile(path)
    assert (now.token, now.login, now.before) == ("login-token", "ann", str(kept))
    assert put_back(path, now) == kept
    assert read_profile(path) == ADMIN
    assert _files(path) == {"profile.toml"}


def test_a_second_login_at_the_same_server_takes_the_place_of_the_first(path: Path) -> None:
    write_profile(ADMIN, path)
    save_login(LOGIN, path, ADMIN)
    second = Profile(HERE, "second", login="bob")
    assert save_login(second, path, read_profile(path)).kept is None
    assert put_back(path, read_profile(path)) is not None
    assert read_profile(path) == ADMIN


def test_logins_at_several_servers_come_back_one_after_the_other(path: Path) -> None:
    write_profile(ADMIN, path)
    save_login(LOGIN, path, ADMIN)
    away = Profile(AWAY, "away-token", login="ann")
    save_login(away, path, read_profile(path))
    assert read_profile(path).token == "away-token"
    put_back(path, read_profile(path))
    assert (read_profile(path).token, read_profile(path).servers) == ("login-token", HERE)
    put_back(path, read_profile(path))
    assert read_profile(path) == ADMIN
    assert _files(path) == {"profile.toml"}


def test_without_a_kept_profile_the_servers_stay_and_the_token_goes(path: Path) -> None:
    write_profile(LOGIN, path)
    assert put_back(path, LOGIN) is None
    assert read_profile(path) == Profile(HERE, None)
    gone = Profile(HERE, "t", login="ann", before=str(path.with_name("gone.toml")))
    assert put_back(path, gone) is None


def test_a_kept_profile_never_takes_the_place_of_another_file(path: Path) -> None:
    write_profile(ADMIN, path)
    taken = path.with_name("profile.127.0.0.1-7070.toml")
    taken.write_text("mine")
    kept = save_login(LOGIN, path, ADMIN).kept
    assert kept == path.with_name("profile.127.0.0.1-7070-2.toml")
    assert taken.read_text() == "mine"


def test_rota_up_writes_its_own_profile_anew(path: Path) -> None:
    assert save_own(ADMIN, path) is None
    assert save_own(Profile(("http://127.0.0.1:7171",), "other"), path) is None
    assert (read_profile(path).token, _files(path)) == ("other", {"profile.toml"})
    path.write_text("damaged = ")
    assert save_own(ADMIN, path) is None
    assert read_profile(path) == ADMIN


def test_rota_up_leaves_a_login_at_its_server_in_use(path: Path) -> None:
    write_profile(ADMIN, path)
    save_login(LOGIN, path, ADMIN)
    kept = save_own(Profile(HERE, "new-admin"), path)
    assert kept is not None
    assert read_profile(path).token == "login-token"
    put_back(path, read_profile(path))
    assert read_profile(path).token == "new-admin"
    assert _files(path) == {"profile.toml"}


@pytest.mark.parametrize("login", ["ann", None])
def test_rota_up_keeps_the_profile_of_a_server_elsewhere(path: Path, login: str | None) -> None:
    away = Profile(AWAY, "away-token", login=login)
    write_profile(away, path)
    kept = save_own(ADMIN, path)
    assert kept == path.with_name("profile.rota.example.org.toml")
    assert (read_profile(kept), read_profile(path).token) == (away, "admin-token")
    assert save_own(ADMIN, path) is None, "the next start has nothing more to keep"
    assert read_profile(path).before == str(kept)


def test_a_profile_that_cannot_be_written_leaves_everything_as_it_was(path: Path) -> None:
    write_profile(ADMIN, path)
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="printable"):
        save_login(Profile(HERE, "bad\ntoken", login="ann"), path, ADMIN)
    assert path.read_bytes() == before


def test_a_profile_with_something_else_for_text_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('server = "http://a:1"\nlogin = 3\n')
    with pytest.raises(ConfigurationError, match="login and before"):
        read_profile(path)
