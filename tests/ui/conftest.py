"""Pages are tried on the node that the API's own tests use."""

from __future__ import annotations

from tests.api.accounts.conftest import acme
from tests.api.conftest import served

__all__ = ["acme", "served"]
