"""`rota login` over links that would tell the token to others, or that need an authority of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.cli.commands.accounts.login import _without_token
from rota.client.errors import ConfigurationError
from rota.client.transport.profile import Profile

FAR = ("http://rota.example.org:7070",)


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROTA_CA", "ROTA_INSECURE_HTTP"):
        monkeypatch.delenv(name, raising=False)


def test_a_login_is_refused_where_the_new_token_would_come_back_in_clear() -> None:
    with pytest.raises(ConfigurationError, match="is not encrypted"):
        _without_token(FAR, None)
    assert _without_token(("http://127.0.0.1:7070",), None) == Profile(("http://127.0.0.1:7070",))


def test_whoever_trusts_the_network_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _without_token(FAR, Profile(FAR, "old", insecure_http=True)).insecure_http
    with pytest.raises(ConfigurationError):  # what was said of one server says nothing of another
        _without_token(FAR, Profile(("http://other:7070",), "old", insecure_http=True))
    monkeypatch.setenv("ROTA_INSECURE_HTTP", "1")
    assert _without_token(FAR, None) == Profile(FAR, insecure_http=True)


def test_the_profile_keeps_the_authority_that_the_login_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    servers = ("https://a:7070",)
    assert _without_token(servers, Profile(servers, "old", ca="/etc/rota/ca.pem")).ca == "/etc/rota/ca.pem"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROTA_CA", "ca.pem")
    assert _without_token(servers, None).ca == str(tmp_path / "ca.pem"), "it holds in other folders too"
