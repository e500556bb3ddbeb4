"""Which registry an image comes from, and whether the operator lists it."""

from __future__ import annotations

import pytest

from rota.execute.images.registries import Host, Registries, connected, full_name, parse_registries, registry_of


@pytest.mark.parametrize(
    ("image", "name", "host"),
    [
        ("alpine", "docker.io/library/alpine", Host("docker.io", 443)),
        ("alpine:3@sha256:00", "docker.io/library/alpine:3@sha256:00", Host("docker.io", 443)),
        ("team/tool:1", "docker.io/team/tool:1", Host("docker.io", 443)),
        ("2130706433/x", "docker.io/2130706433/x", Host("docker.io", 443)),
        ("ghcr.io/team/tool", "ghcr.io/team/tool", Host("ghcr.io", 443)),
        ("Registry.Corp:5000/a/b:1", "Registry.Corp:5000/a/b:1", Host("registry.corp", 5000)),
        ("localhost/mine:1", "localhost/mine:1", Host("localhost", 443)),
        ("127.0.0.1:5000/x", "127.0.0.1:5000/x", Host("127.0.0.1", 5000)),
    ],
)
def test_an_image_has_one_full_name_and_one_registry(image: str, name: str, host: Host) -> None:
    assert full_name(image) == name
    assert registry_of(name) == host


def test_docker_hub_answers_under_another_name() -> None:
    assert connected(Host("docker.io", 443)) == Host("registry-1.docker.io", 443)
    assert connected(Host("ghcr.io", 443)) == Host("ghcr.io", 443)


@pytest.mark.parametrize(
    ("listed", "host", "port", "is_listed"),
    [
        (("ghcr.io",), "ghcr.io", 443, True),
        (("ghcr.io",), "GHCR.io", 443, True),
        (("ghcr.io",), "ghcr.io", 80, True),
        (("ghcr.io",), "ghcr.io", 5000, False),
        (("ghcr.io",), "evil-ghcr.io", 443, False),
        (("ghcr.io",), "ghcr.io.evil.example", 443, False),
        (("reg.corp:5000",), "reg.corp", 5000, True),
        (("reg.corp:5000",), "reg.corp", 443, False),
        (("*.corp",), "a.b.corp", 443, True),
        (("*.corp",), "corp", 443, False),
        (("*.corp",), "evilcorp", 443, False),
        (("*.corp:5000",), "a.corp", 5000, True),
        ((), "docker.io", 443, False),
    ],
)
def test_a_registry_is_listed_by_its_name_and_port(
    listed: tuple[str, ...], host: str, port: int, is_listed: bool
) -> None:
    assert Registries(listed=listed).lists(Host(host, port)) is is_listed


def test_an_operator_lists_registries_or_none_or_takes_the_public_ones() -> None:
    assert "docker.io" in parse_registries((), private=False).listed
    assert parse_registries(("none",), private=False).listed == ()
    assert parse_registries(("Reg.Corp:5000",), private=True) == Registries(listed=("reg.corp:5000",), private=True)


@pytest.mark.parametrize("entry", ["", "*", "https://ghcr.io", "ghcr.io/team", "a b", "[::1]:5000", "reg.corp:"])
def test_a_wrong_registry_is_refused_with_what_would_be_right(entry: str) -> None:
    with pytest.raises(ValueError, match=r"is not a registry: NAME, NAME:PORT, \*\.DOMAIN, or none"):
        parse_registries((entry,), private=False)
    with pytest.raises(ValueError, match="it can't be given with registries"):
        parse_registries(("none", "ghcr.io"), private=False)
