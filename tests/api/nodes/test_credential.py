"""The agent's side: a node token is got once and again, the key file is whole or refused, a forgotten key stays forgotten."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.execute.identity import (
    KEY_FILE,
    BadKeyFile,
    JoinRefused,
    NodeCredential,
    NoTokenYet,
    WorkerToken,
    ensure_key,
    open_credential,
)
from tests.api.nodes.machines import join_token
from tests.api.served import Served


@pytest.fixture
def credential(two: Served, tmp_path: Path) -> Callable[..., NodeCredential]:
    def make(name: str, *, servers: tuple[str, ...] = (), join: str = "", token: str = "") -> NodeCredential:
        made = open_credential(
            tmp_path / name,
            servers=servers or tuple(two.cluster.urls),
            pool="default",
            name=name,
            boot=9,
            join_token=join,
            token=token,
        )
        assert isinstance(made, NodeCredential)
        return made

    return make


Make = Callable[..., NodeCredential]


async def test_the_join_token_is_needed_once(two: Served, credential: Make) -> None:
    token = join_token(two)
    first = await credential("once", join=token).authorization()
    again = await credential("once").authorization()
    assert first.startswith("Bearer rota_node_")
    assert again.startswith("Bearer rota_node_")
    [(used,)] = two.ask("select used from worker_keys where public_id = $1", token.split("_")[2])
    assert used == 1


async def test_a_node_token_is_kept_until_it_is_refused(two: Served, credential: Make) -> None:
    own = credential("kept", join=join_token(two))
    first = await own.authorization()
    assert await own.authorization() == first
    own.refused()
    assert await own.authorization() != first


async def test_another_server_is_asked_when_one_is_away(two: Served, credential: Make) -> None:
    own = credential("away", join=join_token(two), servers=("http://127.0.0.1:9", two.cluster.urls[1]))
    assert (await own.authorization()).startswith("Bearer rota_node_")


async def test_no_server_at_all_is_no_refusal(credential: Make, tmp_path: Path) -> None:
    own = credential("alone", servers=("http://127.0.0.1:9",), join="rota_join_x")
    with pytest.raises(NoTokenYet):
        await own.authorization()


async def test_a_key_that_nobody_knows_ends_the_agent_with_a_sentence(credential: Make, tmp_path: Path) -> None:
    ensure_key(tmp_path / "unknown")
    with pytest.raises(JoinRefused, match="no node unknown of pool default is known by this key"):
        await credential("unknown").authorization()


async def test_a_join_token_that_is_used_up_ends_the_agent_with_a_sentence(two: Served, credential: Make) -> None:
    token = join_token(two)
    await credential("takes-it", join=token).authorization()
    with pytest.raises(JoinRefused, match="good for 1 node"):
        await credential("too-late", join=token).authorization()


async def test_a_forgotten_key_does_not_join_again_by_itself(two: Served, credential: Make) -> None:
    own = credential("forgotten", join=join_token(two, uses=5), token="fallback")
    await own.authorization()
    two.ask("delete from node_keys where name = 'forgotten'")
    own.refused()
    with pytest.raises(NoTokenYet):
        await own.authorization()
    assert "known by this key" in (own.why_refused() or "")


async def test_a_workers_token_is_sent_if_the_key_is_not_known(credential: Make, tmp_path: Path) -> None:
    ensure_key(tmp_path / "old")
    assert await credential("old", token="rota_x").authorization() == "Bearer rota_x"


async def test_without_a_key_a_workers_token_is_sent(tmp_path: Path) -> None:
    made = open_credential(tmp_path, servers=("http://x",), pool="p", name="n", boot=1, join_token="", token="t")
    assert isinstance(made, WorkerToken)
    assert await made.authorization() == "Bearer t"
    assert not (tmp_path / KEY_FILE).exists()


# ---- the key file ---------------------------------------------------------------------------------------------------


def test_the_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    first = ensure_key(tmp_path / "data")
    assert (tmp_path / "data" / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert ensure_key(tmp_path / "data").public == first.public
    assert os.listdir(tmp_path / "data") == [KEY_FILE], "nothing is left of its making"


@pytest.mark.parametrize("content", [b"", b"rubbish", b"-----BEGIN PRIVATE KEY-----\n", bytes(5000)])
def test_a_key_file_that_holds_no_key_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / KEY_FILE
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(BadKeyFile, match="does not hold this node's key: restore it"):
        ensure_key(tmp_path)
    assert path.read_bytes() == content


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    ensure_key(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o640)
    with pytest.raises(BadKeyFile, match="chmod 600"):
        ensure_key(tmp_path)


def test_a_key_file_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).mkdir()
    with pytest.raises(BadKeyFile, match="can't be read"):
        ensure_key(tmp_path)


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    text = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / KEY_FILE).write_bytes(text)
    (tmp_path / KEY_FILE).chmod(0o600)
    with pytest.raises(BadKeyFile, match="does not hold"):
        ensure_key(tmp_path)
