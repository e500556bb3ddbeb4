"""Where the server's address and the token come from: arguments, environment, profile file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from rota import ConfigurationError
from rota.client.transport.profile import Profile, profile_path, resolve, write_profile


@pytest.fixture
def written(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "deep" / "profile.toml"
    write_profile(Profile(("http://file:1",), "file-token"), path)
    return {"ROTA_PROFILE": str(path)}


def test_arguments_win_over_the_environment_and_that_over_the_file(written: dict[str, str]) -> None:
    environment = {**written, "ROTA_SERVER": "http://env:1", "ROTA_TOKEN": "env-token"}
    assert resolve("http://argument:1", "argument-token", environment) == Profile(
        ("http://argument:1",), "argument-token"
    )
    assert resolve(environment=environment) == Profile(("http://env:1",), "env-token")
    assert resolve(environment=written) == Profile(("http://file:1",), "file-token")


def test_the_files_token_is_not_sent_to_another_server(written: dict[str, str]) -> None:
    assert resolve("http://elsewhere:1", environment=written).token is None
    assert resolve("http://file:1/", environment=written).token == "file-token"


def test_the_files_token_is_sent_to_several_servers_only_if_the_file_names_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    write_profile(Profile(("http://a:1", "http://b:1"), "file-token"), path)
    environment = {"ROTA_PROFILE": str(path)}
    assert resolve(environment=environment) == Profile(("http://a:1", "http://b:1"), "file-token")
    assert resolve("http://b:1", environment=environment).token == "file-token"
    assert resolve("http://b:1,http://a:1/", environment=environment).token == "file-token"
    assert resolve("http://a:1,http://c:1", environment=environment) == Profile(("http://a:1", "http://c:1"), None)


def test_the_profile_is_readable_by_its_owner_alone_and_shows_no_token(written: dict[str, str]) -> None:
    assert stat.S_IMODE(Path(written["ROTA_PROFILE"]).stat().st_mode) == 0o600
    assert "file-token" not in repr(resolve(environment=written))


def test_the_profile_lies_in_the_configuration_folder() -> None:
    assert profile_path({"XDG_CONFIG_HOME": "/etc/me"}) == Path("/etc/me/rota/profile.toml")
    assert profile_path({}) == Path.home() / ".config/rota/profile.toml"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"server = http://x", "not TOML: .*line 1"),
        (b"server = 3", "write server"),
        (b"\xff\xfe", "not UTF-8"),
        (b'server = "ftp://x"', "not the address of a server"),
        (b'server = "http://x"\ntoken = "two words"', "no token has"),
    ],
)
def test_a_broken_profile_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "profile.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        resolve(environment={"ROTA_PROFILE": str(path)})


def test_a_profile_that_was_named_but_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        resolve(environment={"ROTA_PROFILE": str(tmp_path / "none.toml")})


def test_a_profile_that_is_a_directory_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        resolve(environment={"ROTA_PROFILE": str(tmp_path)})


def test_a_profile_in_a_folder_that_may_not_be_entered_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")  # root may enter every folder

    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(ConfigurationError, match=r"profile .*profile\.toml: cannot be read: Permission denied"):
        resolve(environment={"XDG_CONFIG_HOME": str(tmp_path)})


def test_no_server_anywhere_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ROTA_SERVER"):
        resolve(environment={"XDG_CONFIG_HOME": str(tmp_path)})
