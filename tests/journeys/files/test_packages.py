"""Functions with a package: wheels, zips and tars, sandboxed and not, never mixed."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.files.conftest import PATIENCE_SECONDS
from tests.journeys.files.stalling import Relay

from rota.client._sync.client import Client
from rota.client.errors import Refused

SOURCE = """
import os
from .words import WORD

def said(name):
    return f"{WORD} {name}"

async def later(name):
    return f"{WORD} {name}"

def where():
    return [__file__, sorted(os.listdir(os.environ["ROTA_PACKAGE"]))]

def spoil():
    open(__file__, "a").write("#")
"""


def zipped(word: str, top: str = "") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr(f"{top}greeting/__init__.py", "")
        packed.writestr(f"{top}greeting/words.py", f"WORD = {word!r}")
        packed.writestr(f"{top}greeting/main.py", SOURCE)
        packed.writestr("greeting-1.0.dist-info/METADATA", "Name: greeting")
    return buffer.getvalue()


def source_release(word: str) -> bytes:
    buffer = io.BytesIO()
    files = {
        "pyproject.toml": "",
        "src/greeting/__init__.py": "",
        "src/greeting/words.py": f"WORD = {word!r}",
        "src/greeting/main.py": SOURCE,
    }
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, text in files.items():
            header = tarfile.TarInfo(f"greeting-1.0/{name}")
            header.size = len(text)
            packed.addfile(header, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture(params=["trusted", "untrusted"])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.getfixturevalue(request.param)
    return found


def test_a_function_runs_from_its_own_package_and_packages_with_equal_names_never_mix(
    client: Client, tmp_path: Path
) -> None:
    wheel = tmp_path / "greeting-1.0-py3-none-any.whl"
    wheel.write_bytes(zipped("hello"))
    packages = {"hello": wheel, "servus": zipped("servus"), "moin": source_release("moin")}
    handles = [
        (f"{word} {name}", client.submit(function=f"greeting.main:{function}", args=[name], package=package))
        for name in ("ann", "bob")
        for word, package in packages.items()
        for function in ("said", "later")
    ]
    assert [handle.result(PATIENCE_SECONDS) for _, handle in handles] == [expected for expected, _ in handles]


def test_the_code_is_read_only_sandboxed_and_not_the_package_there_is_no_such_module(untrusted: Client) -> None:
    package = zipped("hello")
    where = untrusted.submit(function="greeting.main:where", package=package)
    assert where.result(PATIENCE_SECONDS) == ["/package/greeting/main.py", ["greeting", "greeting-1.0.dist-info"]]
    spoilt = untrusted.submit(function="greeting.main:spoil", package=package).wait(PATIENCE_SECONDS)
    assert spoilt.failure is not None
    assert spoilt.failure.type in (
        "OSError",
        "PermissionError",
    )  # a file system that is read-only, and not its own file
    bare = untrusted.submit(function="greeting.main:where").wait(PATIENCE_SECONDS)
    assert bare.failure is not None
    assert bare.failure.message == "there is no module greeting on this node"
    other = untrusted.submit(function="parting.main:where", package=package).wait(PATIENCE_SECONDS)
    assert other.failure is not None
    assert other.failure.message == "there is no module parting in the task's package, nor on this node"


def test_a_package_that_is_no_safe_archive_is_refused_by_name(client: Client) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        link = tarfile.TarInfo("greeting.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link)
    for package, said in ((buffer.getvalue(), "symbolic link"), (b"no archive", "the archive is damaged")):
        ended = client.submit(function="greeting:x", package=package).wait(PATIENCE_SECONDS)
        assert ended.failure is not None
        assert ended.failure.type == "bad-archive"
        assert ended.failure.message.startswith("package: ")
        assert said in ended.failure.message


@pytest.mark.parametrize("function", ["said", "later"])
def test_a_package_that_does_not_come_ends_with_its_calls_cap(trusted: Client, relay: Relay, function: str) -> None:
    save_request: dict[str, Any] = {
        "require": {"stalls": "yes"},
        "package": zipped(f"stalled {function}"),
        "memory": "256M",
    }
    first = trusted.submit(function=f"greeting.main:{function}", args=["ann"], cap="1s", **save_request)
    second = trusted.submit(function=f"greeting.main:{function}", args=["bob"], cap="3s", **save_request)
    assert relay.stalled.acquire(timeout=PATIENCE_SECONDS)
    for handle, cap in ((first, "1s"), (second, "3s")):
        ended = handle.wait(PATIENCE_SECONDS)
        assert ended.failure is not None
        assert (ended.failure.type, ended.failure.message) == ("timeout", f"ran longer than its cap of {cap}")


def test_a_package_goes_with_a_function_and_must_be_there(trusted: Client) -> None:
    with pytest.raises(Refused, match="a package is a function's code"):
        trusted.submit(["true"], package=zipped("hello"))
    with pytest.raises(Refused, match="there is no artifact"):
        trusted.submit(function="greeting.main:said", package="sha256:" + "0" * 64)
