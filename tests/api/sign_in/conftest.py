from __future__ import annotations

import pytest

from tests.api.accounts.people import People
from tests.api.served import Served
from tests.api.sign_in.people import SignIn


@pytest.fixture
def people(served: Served) -> SignIn:
    return SignIn(People.at(served))
