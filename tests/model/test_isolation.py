"""Labels of mounts: for everybody or for some tenants, and what a task requires of them."""

from __future__ import annotations

import pytest

from rota.model.isolation import meets, mount_offer, mount_requirement


@pytest.mark.parametrize(
    ("tenants", "asks", "granted"),
    [
        ((), "acme", True),
        (("acme",), "acme", True),
        (("acme", "beta"), "beta", True),
        (("acme",), "beta", False),
        (("acme-inc",), "acme", False),  # names are compared whole
        (("acme",), "yes", False),
        (("yes",), "acme", False),  # a tenant called as the word for everybody is still but one
    ],
)
def test_a_mount_is_for_everybody_or_for_the_tenants_named(tenants: tuple[str, ...], asks: str, granted: bool) -> None:
    assert meets({"rota/mount-team": mount_offer(tenants)}, "rota/mount-team", mount_requirement(asks)) is granted


def test_other_labels_are_equal_or_not() -> None:
    labels = {"zone": "tenant=a,b", "rota/mount-team": "yes"}
    assert meets(labels, "zone", "tenant=a,b")
    assert not meets(labels, "zone", "tenant=a")
    assert not meets(labels, "disk", "ssd")
    assert meets(labels, "rota/mount-team", "yes")  # as tasks were admitted before mounts could be for some
