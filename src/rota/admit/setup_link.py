"""The link for the first administrator of a fresh installation: printed by `rota up`, good once, for 15 minutes.

The code is printed, and kept as a hash. Whoever can start `rota up` has the database, so it gives them nothing new.
"""

from __future__ import annotations

import secrets
from datetime import timedelta

from rota.admit.authenticate import hash_secret
from rota.store.database import connect
from rota.store.sign_in import add_link, has_administrator

SETUP_LASTS = timedelta(minutes=15)


async def make_setup_code(url: str) -> str | None:
    """None: an administrator everywhere can sign in. Else the code of a new link; those before end."""
    connection = await connect(url, {"application_name": "rota setup link"})
    try:
        async with connection.transaction():
            if await has_administrator(connection):
                return None
            code = secrets.token_urlsafe(32)
            await add_link(connection, secret_hash=hash_secret(code), principal=None, by="rota up", lasts=SETUP_LASTS)
            return code
    finally:
        await connection.close()
