"""Where webhooks may go: never to an address of ours, whatever it is called and whenever it is asked."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest

from rota import public_addresses
from rota.observe.notify.targets import judge
from rota.public_addresses import ForbiddenTarget, Unresolved, is_public, resolve


async def public(_host: str, _port: int) -> list[str]:
    return ["93.184.216.34", "2606:2800:220:1::1"]


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1",
     "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1",
     "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "::7f00:1"],
)  # fmt: skip
def test_an_address_that_is_not_public_is_recognised(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "1.1.1.1", "2606:2800:220:1::1", "::ffff:1.1.1.1"])
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/", "http://localhost/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/",
     "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://10.0.0.8/x", "http://169.254.169.254/latest/meta-data",
     "https://user:word@93.184.216.34/", "ftp://93.184.216.34/", "file:///etc/passwd", "https://93.184.216.34:8080/",
     "https://1.1.1.1#@127.0.0.1/", "https://1.1.1.1\\@127.0.0.1/", "https://@127.0.0.1/", "https://127.0.0.1\\.example.org/",
     "https://1.1.1.1:80@127.0.0.1/", "https://1.1.1.1%2F@127.0.0.1/", "https://127。0。0。1/", "https://⑫7.0.0.1/",
     "https://", "https://[::1", "nonsense", "https://a b/", "https://93.184.216.34/\r\nx: y", "https://h:99999/"],
)  # fmt: skip
async def test_row_43_targets_that_are_refused(url: str) -> None:
    with pytest.raises(ForbiddenTarget):
        await judge(url, private=False, resolving=resolve)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1"])
async def test_an_address_in_any_writing_is_judged_without_a_resolver_that_may_be_slow(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> list[str]:
        raise TimeoutError

    monkeypatch.setattr(public_addresses, "_look_up", away)
    assert await resolve(host, 80) == ["127.0.0.1"]
    with pytest.raises(Unresolved):
        await resolve("example.org", 80)


HANGS = """
import asyncio, socket, sys
from rota import public_addresses

real = socket.getaddrinfo
def hang(host, port, *more, **named):
    if named.get("flags"):  # is it an address?
        return real(host, port, *more, **named)
    __import__("threading").Event().wait()

socket.getaddrinfo = hang
public_addresses.RESOLVE_SECONDS = 0.05

async def main():
    for number in range(public_addresses.MOST_LOOK_UPS + 1):
        try:
            await public_addresses.resolve(f"n{number}.example.org", 80)
        except public_addresses.Unresolved as error:
            last = str(error)
    print(last)

asyncio.run(main())
"""


def test_names_that_a_resolver_never_answers_are_bounded_and_keep_no_process_from_ending() -> None:
    ran = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip().endswith("too many names are being looked up")


async def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    async def mixed(_host: str, _port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.1"]

    with pytest.raises(ForbiddenTarget, match="not a public address"):
        await judge("https://example.org/", private=False, resolving=mixed)


async def test_the_way_is_pinned_to_the_address_that_was_judged() -> None:
    target = await judge("https://Example.org/hook?x=1", private=False, resolving=public)
    assert str(target.pinned_url) == "https://93.184.216.34/hook?x=1"
    assert (target.host, target.host_header) == ("example.org", "example.org")


@pytest.mark.parametrize(
    "url",
    ["https://a.example/x", "https://A.example:443", "http://b.example:80/?q=@127.0.0.1", "https://bücher.example/ü"],
)
async def test_the_sender_connects_to_the_judged_address_and_names_the_judged_host(url: str) -> None:
    asked: list[str] = []

    async def noted(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["93.184.216.34"]

    target = await judge(url, private=False, resolving=noted)
    sent = httpx.Request("POST", target.pinned_url, headers={"host": target.host_header})
    assert sent.url.host == "93.184.216.34"
    assert asked == [sent.headers["host"]] == [target.host]


async def test_an_operator_may_allow_private_targets_and_ports() -> None:
    target = await judge("http://127.0.0.1:8080/hook", private=True, resolving=resolve)
    assert (str(target.pinned_url), target.host_header) == ("http://127.0.0.1:8080/hook", "127.0.0.1:8080")


async def test_a_name_without_an_address_is_no_refusal() -> None:
    async def none(host: str, _port: int) -> list[str]:
        raise Unresolved(f"{host} can't be resolved")

    with pytest.raises(Unresolved):
        await judge("https://nowhere.example/", private=False, resolving=none)
