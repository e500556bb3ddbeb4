"""`rota tls`, and the refusal to send a token where others can read it: what a person types, sees and gets wrong."""

from __future__ import annotations

import json
import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.cli.operate import authority, server_node, worker_node
from rota.client.errors import ConfigurationError
from rota.client.transport.profile import Profile, read_profile, resolve, write_profile
from rota.settings import Settings
from tests.cli.conftest import Rota


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "rota-tls"


def handshake(folder: Path, host: str, *, server: Path | None = None) -> None:
    """In memory, with the strictest verification there is. SSLError if the client does not accept it."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain((server or folder) / "server.pem", (server or folder) / "server.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname=host)
    other = serving.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        for end in (client, other):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert client.version() == "TLSv1.3"


def test_init_makes_what_servers_and_clients_need_and_says_what_to_type(rota: Rota, folder: Path) -> None:
    ran = rota("tls", "init", "--dir", str(folder), "--name", "A.example.org,10.0.0.7", "--name", "fd00::7,*.c.example")
    assert (ran.code, ran.err) == (0, "")
    assert "a.example.org, *.c.example, localhost, 10.0.0.7, fd00::7, 127.0.0.1, ::1" in ran.out
    assert f"rota serve --tls-cert {folder}/server.pem --tls-key {folder}/server.key" in ran.out
    assert f"rota worker --ca {folder}/ca.pem --server https://a.example.org:7070" in ran.out
    assert f"export ROTA_CA={folder}/ca.pem" in ran.out
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert {name for name, mode in modes.items() if mode & 0o077 == 0} == {"ca.key", "server.key"}
    assert set(modes) == {"ca.pem", "ca.key", "server.pem", "server.key"}
    for host in ("a.example.org", "10.0.0.7", "fd00::7", "x.c.example", "localhost", "127.0.0.1", "::1"):
        handshake(folder, host)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'b\.example\.org'"):
        handshake(folder, "b.example.org")


def test_init_does_not_replace_an_authority_unless_told_to(rota: Rota, folder: Path) -> None:
    assert rota("tls", "init", "--dir", str(folder), "--name", "a").code == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ran = rota("tls", "init", "--dir", str(folder), "--name", "a")
    assert (ran.code, ran.out, ran.err.count("\n")) == (4, "", 1)
    assert "rota tls renew" in ran.err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert rota("tls", "init", "--dir", str(folder), "--name", "a", "--force").code == 0
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert not set(before.items()) & set(after.items())


def test_renew_makes_another_certificate_that_the_same_clients_accept(rota: Rota, folder: Path) -> None:
    assert rota("tls", "init", "--dir", str(folder), "--name", "a,10.0.0.7", "--days", "10").code == 0
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    ran = rota("tls", "renew", "--dir", str(folder))
    assert (ran.code, ran.err) == (0, "")
    second = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name for name in first if first[name] == second[name]} == {"ca.pem", "ca.key"}
    for host in ("a", "10.0.0.7", "localhost"):
        handshake(folder, host)
    assert rota("tls", "renew", "--dir", str(folder), "--name", "b").code == 0
    handshake(folder, "b")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(folder, "a")


def test_a_key_that_a_group_may_read_stays_so_when_it_is_renewed(rota: Rota, folder: Path) -> None:
    """The server node may run as another user of that group."""
    assert rota("tls", "init", "--dir", str(folder), "--name", "a").code == 0
    (folder / "server.key").chmod(0o644)
    assert rota("tls", "renew", "--dir", str(folder)).code == 0
    assert stat.S_IMODE((folder / "server.key").stat().st_mode) == 0o640


def test_one_file_may_hold_an_old_and_a_new_authority(rota: Rota, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for each in (old, new):
        assert rota("tls", "init", "--dir", str(each), "--name", "a").code == 0
    both = (old / "ca.pem").read_text() + (new / "ca.pem").read_text()
    (old / "ca.pem").write_text(both)
    handshake(old, "a")
    handshake(old, "a", server=new)


def test_show_tells_names_and_dates(rota: Rota, folder: Path) -> None:
    assert rota("tls", "init", "--dir", str(folder), "--name", "a", "--days", "20").code == 0
    ran = rota("tls", "show", "--dir", str(folder), "-o", "json")
    ca, server = json.loads(ran.out)["certificates"]
    assert server["names"] == ["a", "localhost", "127.0.0.1", "::1"]
    assert server["days_left"] in (19, 20), "20, unless a second has passed since"
    assert (ca["names"], ca["days_left"] > 3600) == ([], True)
    assert server["serial"] in rota("tls", "show", "--dir", str(folder)).out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["init"], 2, "--name: name what clients and workers write in the address"),
        (["init", "--name", "a b"], 2, "'a b' is neither a host's name"),
        (["init", "--name", "https://a:7070"], 2, "'https://a:7070' is neither a host's name"),
        (["init", "--name", "a,,b"], 2, "'' is neither a host's name"),
        (["init", "--name", "*.example"], 2, "'*.example' is neither a host's name"),
        (["init", "--name", "a.*.example"], 2, "'a.*.example' is neither a host's name"),
        (["init", "--name", "300.1.2.3"], 2, "'300.1.2.3' is neither a host's name"),
        (["init", "--name", "a\x00b"], 2, "neither a host's name"),
        (["init", "--name", "ä.example"], 2, "'ä.example' is neither a host's name"),
        (["init", "--name", "a" * 64], 2, "neither a host's name"),
        (["init", "--name", "a", "--days", "0"], 2, "--days: it is a whole number from 1 to 3650, not 0"),
        (["init", "--name", "a", "--days", "x"], 2, "'x' is not a"),
        (["renew"], 3, "ca.pem; `rota tls init --name HOST` makes an authority"),
        (["show"], 3, "ca.pem; `rota tls init --name HOST` makes an authority"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_written(
    rota: Rota, folder: Path, arguments: list[str], code: int, said: str
) -> None:
    ran = rota("tls", *arguments, "--dir", str(folder))
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1), ran.err
    assert said in ran.err
    assert not folder.exists()


def test_damaged_files_are_named(rota: Rota, folder: Path, tmp_path: Path) -> None:
    for each in (folder, tmp_path / "other"):
        assert rota("tls", "init", "--dir", str(each), "--name", "a").code == 0
    key = (folder / "ca.key").read_bytes()
    for content, said in (
        (b"x", f"{folder}/ca.key is no private key that `rota tls init` made"),
        ((tmp_path / "other/ca.key").read_bytes(), f"{folder}/ca.key is not the key of {folder}/ca.pem"),
    ):
        (folder / "ca.key").write_bytes(content)
        ran = rota("tls", "renew", "--dir", str(folder))
        assert (ran.code, said in ran.err) == (4, True), ran.err
    (folder / "ca.key").write_bytes(key)
    (folder / "server.pem").write_bytes((tmp_path / "other/server.pem").read_bytes())
    ran = rota("tls", "show", "--dir", str(folder))
    assert (ran.code, "is not by the authority" in ran.err) == (4, True)
    (folder / "server.pem").write_text("x")
    ran = rota("tls", "show", "--dir", str(folder))
    assert (ran.code, f"{folder}/server.pem is no certificate in PEM format" in ran.err) == (4, True)


def test_an_authority_makes_nothing_that_outlasts_it(folder: Path) -> None:
    made = datetime.now(UTC) - timedelta(days=authority.CA_DAYS - 10)
    authority.init(folder, ("a",), days=30, now=made, replace=False)
    with pytest.raises(authority.Trouble, match="--days 11 is longer than the authority lasts"):
        authority.renew(folder, (), days=11, now=datetime.now(UTC))
    authority.renew(folder, (), days=9, now=datetime.now(UTC))
    with pytest.raises(authority.Trouble, match="expired at"):
        authority.renew(folder, (), days=1, now=datetime.now(UTC) + timedelta(days=11))


# ---- what may travel in clear ------------------------------------------------------------------------------------


@pytest.fixture
def outside(rota: Rota, monkeypatch: pytest.MonkeyPatch) -> Rota:
    monkeypatch.delenv("ROTA_INSECURE_HTTP", raising=False)
    monkeypatch.delenv("ROTA_CA", raising=False)
    monkeypatch.setenv("ROTA_CA", "")  # put back at the end, whatever a command line makes of it
    monkeypatch.setenv("ROTA_INSECURE_HTTP", "")
    return rota


@pytest.mark.parametrize("address", ["http://10.1.2.3:7070", "http://rota.example:7070", "http://localhost.example"])
def test_no_token_is_sent_in_clear_to_another_machine(
    outside: Rota, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_SERVER", address)
    monkeypatch.setenv("ROTA_TOKEN", "rota_a-secret")
    for arguments in (["list"], ["run", "--", "true"], ["worker"]):
        ran = outside(*arguments)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), (arguments, ran)
        assert f"{address} is not encrypted" in ran.err
        assert "use https" in ran.err
        assert "ROTA_INSECURE_HTTP=1" in ran.err
        assert "secret" not in ran.err


def test_it_is_sent_where_one_trusts_the_network(outside: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_SERVER", "http://rota.invalid:7070")
    monkeypatch.setenv("ROTA_INSECURE_HTTP", "1")
    ran = outside("list")
    assert (ran.code, "cannot be reached" in ran.err) == (5, True)


def test_a_worker_takes_the_permission_and_the_authority_as_options(
    outside: Rota, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[worker_node.WorkerOptions] = []
    monkeypatch.setattr(worker_node, "run_worker", lambda options: started.append(options) or 0)
    plain = ["worker", "--server", "http://10.1.2.3:7070", "--data", str(tmp_path / "data")]
    assert outside(*plain).code == 2
    assert outside(*plain, "--insecure-http").code == 0
    assert os.environ["ROTA_INSECURE_HTTP"] == "1"
    encrypted = ["worker", "--server", "https://10.1.2.3:7070", "--data", str(tmp_path / "data"), "--ca"]
    ran = outside(*encrypted, str(folder / "ca.pem"))
    assert (ran.code, f"{folder}/ca.pem: No such file or directory" in ran.err) == (2, True)
    assert outside("tls", "init", "--dir", str(folder), "--name", "a").code == 0
    assert outside(*encrypted, str(folder / "ca.pem")).code == 0
    assert os.environ["ROTA_CA"] == str(folder / "ca.pem")
    assert len(started) == 2


@pytest.fixture
def serving(outside: Rota, monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    started: list[Settings] = []
    monkeypatch.setattr(server_node, "run_server", lambda settings, tokens: started.append(settings) or 0)
    monkeypatch.setenv("ROTA_DATABASE", "postgresql:///x")
    return started


PAIR = ("--tls-cert", "server.pem", "--tls-key", "server.key")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "--host: with 0.0.0.0 other machines reach this server"),
        (["--host", "::"], "--host: with :: other machines reach this server"),
        (["--host", "10.0.0.7"], "--host: with 10.0.0.7"),
        (["--url", "http://10.0.0.7:7070"], "--url: with http://10.0.0.7:7070"),
        (["--host", "0.0.0.0", "--public-url", "https://rota.example"], "--host: with 0.0.0.0"),
        ([*PAIR, "--url", "http://a:7070"], "--url: http://a:7070 is not where a server with --tls-cert"),
        ([*PAIR, "--host", "0.0.0.0"], "--url: give the address at which others reach this node: https://NAME:7070"),
        (["--tls-cert", "server.pem"], "--tls-cert: give --tls-key too"),
        (["--tls-key", "server.key"], "--tls-key: give --tls-cert too"),
        (["--trusted-proxies", "10.0.0.1/8"], "'10.0.0.1/8' is not a network"),
        (["--trusted-proxies", "proxy.example"], "'proxy.example' is not a network"),
    ],
)
def test_a_server_that_others_would_reach_in_clear_does_not_start(
    outside: Rota, serving: list[Settings], options: list[str], said: str
) -> None:
    ran = outside("serve", *options)
    assert (ran.code, ran.err.count("\n"), serving) == (2, 1, [])
    assert said in ran.err


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ([], "http://127.0.0.1:7070"),
        (["--host", "::1"], "http://[::1]:7070"),
        (["--host", "0.0.0.0", "--insecure-http"], "http://0.0.0.0:7070"),
        (["--host", "0.0.0.0", "--url", "https://a"], "https://a"),  # of a proxy
        ([*PAIR, "--host", "10.0.0.7"], "https://10.0.0.7:7070"),
    ],
)
def test_a_server_starts_where_nothing_is_in_clear_or_it_is_allowed(
    outside: Rota, serving: list[Settings], options: list[str], url: str
) -> None:
    ran = outside("serve", *options)
    assert (ran.code, ran.err) == (0, "")
    assert [settings.advertised_url for settings in serving] == [url]


# ---- the profile -------------------------------------------------------------------------------------------------


def test_a_profile_carries_the_authority_and_the_permission(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    written = Profile(("http://10.0.0.7:7070",), "key", ca="/etc/rota/ca.pem", insecure_http=True)
    write_profile(written, path)
    assert resolve(environment={"ROTA_PROFILE": str(path)}) == written
    there = resolve(environment={"ROTA_PROFILE": str(path), "ROTA_SERVER": "http://10.0.0.7:7070", "ROTA_CA": "/own"})
    assert (there.token, there.ca, there.insecure_http) == ("key", "/own", True)
    elsewhere = resolve(environment={"ROTA_PROFILE": str(path), "ROTA_SERVER": "http://10.0.0.8:7070"})
    assert (elsewhere.token, elsewhere.ca, elsewhere.insecure_http) == (None, "", False)


def test_the_authority_of_a_profile_may_stand_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    path.write_text('server = "https://a"\nca = "ca.pem"\n')
    assert read_profile(path).ca == str(tmp_path / "ca.pem")


@pytest.mark.parametrize("line", ["ca = 7", 'insecure_http = "yes"'])
def test_a_profile_with_a_wrong_kind_of_value_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "profile.toml"
    path.write_text(f'server = "https://a"\n{line}\n')
    with pytest.raises(ConfigurationError, match="insecure_http as true or false"):
        read_profile(path)
