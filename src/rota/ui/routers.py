"""The routers of all pages, in the order in which they are tried."""

from __future__ import annotations

from rota.ui import start, static
from rota.ui.logins import in_browser, with_code
from rota.ui.sign_in import account, links, signing_in

PAGES = (
    static.router,
    start.router,
    signing_in.router,
    links.router,
    account.router,
    in_browser.router,
    with_code.router,
)
