from __future__ import annotations

import pytest

from tests.api.accounts.people import People
from tests.api.served import Served


@pytest.fixture(scope="module")
def acme(served: Served) -> People:
    return People.at(served)


@pytest.fixture(scope="module")
def other(served: Served) -> People:
    return People.at(served)
