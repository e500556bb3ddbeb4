from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.store.rows import Rows

pytest.register_assert_rewrite("tests.store.rows")


@pytest.fixture
async def rows(database: str) -> AsyncIterator[Rows]:
    opened = await Rows.open(database)
    yield opened
    await opened.close()
