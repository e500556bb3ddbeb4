from __future__ import annotations

import pytest

from tests.harness.postgres import TestPostgres
from tests.store.rows import shared_database


@pytest.fixture(scope="session")
def shared(postgres: TestPostgres) -> str:
    return shared_database(postgres)
