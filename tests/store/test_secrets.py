"""Secrets at rest: envelopes, master keys, rotation, and the wall between tenants."""

from __future__ import annotations

import base64
import os
from dataclasses import replace
from itertools import count
from pathlib import Path

import asyncpg
import pytest

from rota.settings import SettingsError
from rota.store import secrets
from rota.store.envelope import CantOpen, Keyring, Sealed, SecretName, new_key_text, parse_keys, rewrap, seal, unseal
from rota.store.key_file import KeyFile, ensure_key_file, open_key_file
from tests.store.plans.explained import Explained
from tests.store.rows import Rows, add_tenant

VALUE = "correct horse battery staple"
HERE = SecretName(1, "TOKEN")


def _keys(*texts: str) -> Keyring:
    return parse_keys("\n".join(texts))


OLD, NEW = (new_key_text(lambda size, letter=letter: letter * size) for letter in (b"o", b"n"))


def test_what_is_sealed_for_a_place_opens_there_and_nowhere_else() -> None:
    keys = _keys(OLD)
    sealed = seal(keys, HERE, VALUE, os.urandom)
    assert unseal(keys, HERE, sealed) == VALUE
    assert VALUE.encode() not in sealed.ciphertext + sealed.wrapped_key
    for elsewhere in (SecretName(2, "TOKEN"), SecretName(1, "OTHER"), SecretName(11, "TOKEN")):
        with pytest.raises(CantOpen, match="moved"):
            unseal(keys, elsewhere, sealed)


@pytest.mark.parametrize("part", ["wrapped_key", "ciphertext"])
@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b[:5], lambda b: b"", lambda b: b + b"\0"]
)
def test_a_damaged_row_is_found_out(part: str, damage: object) -> None:
    keys = _keys(OLD)
    sealed = seal(keys, HERE, VALUE, os.urandom)
    with pytest.raises(CantOpen, match="damaged") as caught:
        unseal(keys, HERE, replace(sealed, **{part: damage(getattr(sealed, part))}))  # type: ignore[operator]
    assert VALUE not in str(caught.value)


def test_parts_of_two_secrets_can_not_be_combined() -> None:
    keys = _keys(OLD)
    one, two = seal(keys, HERE, "one value", os.urandom), seal(keys, HERE, "two value", os.urandom)
    with pytest.raises(CantOpen):
        unseal(keys, HERE, Sealed(one.key_id, one.wrapped_key, two.ciphertext))


def test_each_sealing_draws_a_key_and_nonces_of_its_own() -> None:
    drawn: list[int] = []
    numbers = count()

    def draw(size: int) -> bytes:
        drawn.append(size)
        return next(numbers).to_bytes(size, "big")

    keys = _keys(OLD)
    sealed = [seal(keys, HERE, VALUE, draw) for _ in range(2)]
    assert drawn == [32, 12, 12] * 2
    assert sealed[0].ciphertext != sealed[1].ciphertext
    assert sealed[0].wrapped_key != sealed[1].wrapped_key


def test_after_a_rotation_the_old_key_can_go() -> None:
    before = seal(_keys(OLD), HERE, VALUE, os.urandom)
    after = rewrap(_keys(NEW, OLD), HERE, before, os.urandom)
    assert after.ciphertext == before.ciphertext
    assert unseal(_keys(NEW), HERE, after) == VALUE
    with pytest.raises(CantOpen, match=f"encrypted with key {_keys(OLD).first.id}"):
        unseal(_keys(NEW), HERE, before)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no key"),
        ("# only a remark\n\n", "no key"),
        ("not base64!", "line 1 is not base64"),
        (f"{OLD}\n{base64.b64encode(b'x' * 16).decode()}", "line 2 holds 16 bytes; a key has 32"),
        (f"{OLD}\n{OLD}", "twice"),
    ],
)
def test_a_bad_key_file_is_refused_with_its_line_and_without_its_content(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(SettingsError, match=complaint) as caught:
        KeyFile(path)
    assert OLD not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_key_file_must_exist_and_be_closed_to_others(tmp_path: Path) -> None:
    assert open_key_file("") is None
    with pytest.raises(SettingsError, match="No such file"):
        open_key_file(str(tmp_path / "none"))
    path = tmp_path / "keys"
    path.write_text(OLD)
    path.chmod(0o604)
    with pytest.raises(SettingsError, match="chmod 600"):
        open_key_file(str(path))


def test_a_key_file_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "secrets.key"
    ensure_key_file(path, os.urandom)
    made = path.read_text()
    ensure_key_file(path, os.urandom)
    assert path.read_text() == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert made.strip() not in repr(KeyFile(path))
    assert made.strip() not in repr(KeyFile(path).keyring())


def test_a_changed_key_file_is_read_again_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(OLD)
    path.chmod(0o600)
    keys = KeyFile(path)
    path.write_text(f"{NEW}\n{OLD}\n")
    both = keys.keyring()
    assert [key.id for key in both.keys] == [_keys(NEW).first.id, _keys(OLD).first.id]
    path.write_text("half a ke")
    assert keys.keyring() is both
    path.unlink()
    assert keys.keyring() is both


# ---- rows ----------------------------------------------------------------------------------------------------------


async def _save(rows: Rows, secret_name: SecretName, value: str, keys: Keyring) -> None:
    async with rows.database.tenant(secret_name.tenant) as connection:
        await secrets.save_secret(connection, secret_name, seal(keys, secret_name, value, os.urandom), "ann")


async def test_a_new_value_raises_the_version_and_keeps_who_made_it(rows: Rows) -> None:
    secret_name, keys = SecretName(rows.tenant, "TOKEN"), _keys(OLD)
    for user, value in (("ann", "first value"), ("bob", "second value")):
        async with rows.database.tenant(secret_name.tenant) as connection:
            row = await secrets.save_secret(connection, secret_name, seal(keys, secret_name, value, os.urandom), user)
    assert (row.version, row.created_by, row.changed_by) == (2, "ann", "bob")
    found = await secrets.read_sealed(rows.connection, [secret_name, SecretName(rows.tenant, "NONE")])
    assert {one: unseal(keys, one, sealed) for one, sealed in found.items()} == {secret_name: "second value"}


async def test_all_tenants_secrets_are_rewrapped_and_one_set_meanwhile_is_left_alone(rows: Rows) -> None:
    secret_names = [
        SecretName(tenant, f"S{n}") for tenant in (rows.tenant, await add_tenant(rows.connection)) for n in range(3)
    ]
    for secret_name in secret_names:
        await _save(rows, secret_name, f"value of {secret_name.name} of {secret_name.tenant}", _keys(OLD))
    both = _keys(NEW, OLD)
    batch = await secrets.sealed_otherwise(rows.connection, both.first.id, after=SecretName(0, ""), limit=100)
    mine = [(secret_name, sealed) for secret_name, sealed in batch if secret_name in secret_names]
    await _save(rows, secret_names[0], "set meanwhile", both)
    done = [await secrets.save_rewrapped(rows.connection, p, s, rewrap(both, p, s, os.urandom)) for p, s in mine]
    assert done == [False] + [True] * 5
    found = await secrets.read_sealed(rows.connection, secret_names)
    values = {secret_name: unseal(_keys(NEW), secret_name, sealed) for secret_name, sealed in found.items()}
    assert values == {p: f"value of {p.name} of {p.tenant}" for p in secret_names} | {secret_names[0]: "set meanwhile"}


async def test_secrets_are_looked_up_by_their_key_alone(rows: Rows) -> None:
    await rows.connection.execute(
        """insert into secrets (tenant, name, key_id, wrapped_key, ciphertext, created_by, changed_by)
            select $1, 'N' || n, 'k', 'x', 'y', 'u', 'u' from generate_series(1, 2000) n""",
        rows.tenant,
    )
    looking = Explained(rows.connection)
    secret_names = [SecretName(rows.tenant, f"N{number}") for number in range(1, 50)]
    assert len(await secrets.read_sealed(looking, secret_names)) == len(secret_names)  # type: ignore[arg-type]
    assert {kind for kind, table, _ in looking.scans() if table == "secrets"} == {"Index Scan"}
    await rows.connection.execute("delete from secrets where tenant = $1", rows.tenant)


async def test_a_tenants_connection_sees_its_own_names_and_no_cipher(rows: Rows) -> None:
    other = await add_tenant(rows.connection)
    for tenant in (rows.tenant, other):
        await _save(rows, SecretName(tenant, "TOKEN"), VALUE, _keys(OLD))
    async with rows.database.tenant(rows.tenant) as connection:
        owners = {row[0] for row in await connection.fetch("select tenant from secrets")}
        assert await connection.execute("delete from secrets where name = 'TOKEN'") == "DELETE 1"
    assert owners == {rows.tenant}
    assert len(await secrets.read_sealed(rows.connection, [SecretName(other, "TOKEN")])) == 1
    for statement in ("select ciphertext from secrets", "select wrapped_key from secrets", "select * from secrets"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with rows.database.tenant(rows.tenant) as connection:
                await connection.execute(statement)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        async with rows.database.tenant(rows.tenant) as connection:
            secret_name = SecretName(other, "PLANTED")
            await secrets.save_secret(connection, secret_name, seal(_keys(OLD), secret_name, VALUE, os.urandom), "eve")
