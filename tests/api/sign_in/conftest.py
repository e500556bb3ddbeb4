from __future__ import annotations

import pytest

from tests.api.accounts.conftest import acme
from tests.api.accounts.people import People
from tests.api.accounts.test_account_commands import rota
from tests.api.served import Served
from tests.api.sign_in.people import SignIn

__all__ = ["acme", "rota"]


@pytest.fixture
def people(served: Served) -> SignIn:
    return SignIn(People.at(served))
