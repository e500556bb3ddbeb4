"""Secrets of a tenant: a name, which anybody may see, and a value, which only the task may.

A value is always kept as a `Secret`, because its repr hides it from logs, tracebacks and assertions. A spec holds only
names, and holds them first, so that its head tells whether there is a value to look up. Whether the task may submit
others comes before them: its key travels as a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

MOST_VALUE_BYTES = 64 * 1024
MOST_A_TASK = 16  # the kernel takes two megabytes of environment and arguments
LONGEST_NAME = 128

SERVER_VARIABLE, TOKEN_VARIABLE = "ROTA_SERVER", "ROTA_TOKEN"  # what a client needs; of a task that may submit: its own

_NAME = re.compile(rf"^[A-Za-z_][A-Za-z0-9_]{{0,{LONGEST_NAME - 1}}}$", re.ASCII)
# A task that submits other tasks gets its token as ROTA_TOKEN.
_RESERVED = re.compile(
    r"^(ROTA_(?!TOKEN$)|LD_|(GCONV_PATH|GLIBC_TUNABLES|PATH|LANG|TZ|HOME|TMPDIR|CUDA_VISIBLE_DEVICES)$)"
)
_SECRETS_HEAD = '{"secrets":'  # the beginning of a spec that names secrets
_SUBMIT_HEAD = '{"may_submit":true'  # the beginning of a spec whose task gets a key; names of secrets may follow
SPEC_HEADS = (_SECRETS_HEAD, _SUBMIT_HEAD)  # of specs to which the leader adds something
_decode_names = msgspec.json.Decoder(list[str]).decode


class Secret(msgspec.Struct, frozen=True, array_like=True):
    name: str
    value: str

    def __repr__(self) -> str:
        return f"Secret({self.name}=***)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(self.name, "***")]


class SecretMap(Mapping[str, str]):
    """Values by name. Its repr shows only names."""

    __slots__ = ("_values",)

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._values = {secret.name: secret.value for secret in secrets}

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"SecretMap({', '.join(f'{name}=***' for name in self._values)})"


def name_trouble(name: str) -> str | None:
    """What is wrong with a secret's name; None: nothing."""
    if not _NAME.match(name):
        return (
            f"{name[:40]!r} is not a variable's name: up to {LONGEST_NAME} letters, digits, underscore, no digit first"
        )
    if _RESERVED.match(name):
        return (
            f"{name} is reserved (ROTA_…, LD_…, the loader's own, PATH, LANG, TZ, HOME, TMPDIR, CUDA_VISIBLE_DEVICES)"
        )
    return None


def value_trouble(value: str) -> str | None:
    """What is wrong with a secret's value, without showing it; None: nothing."""
    size = len(value.encode())
    if not 1 <= size <= MOST_VALUE_BYTES:
        return f"a value has 1 to {MOST_VALUE_BYTES} bytes, not {size}"
    return "a value can't contain NUL: it becomes an environment variable" if "\0" in value else None


def names_in_spec(spec: str) -> list[str]:
    """The names at the head of a spec; names need no escapes, so the first bracket closes the list."""
    head = _SECRETS_HEAD
    if may_submit_in(spec):
        head = f"{_SUBMIT_HEAD},{_SECRETS_HEAD[1:]}"
    return _decode_names(spec[len(head) : spec.index("]") + 1]) if spec.startswith(head) else []


def may_submit_in(spec: str) -> bool:
    """Whether the task of this spec gets a key."""
    return spec.startswith(_SUBMIT_HEAD)
