"""The routers of all pages, in the order in which they are tried."""

from __future__ import annotations

from rota.ui import start, static
from rota.ui.logins import browser, device_code
from rota.ui.sign_in import account, links, oidc, signing_in

PAGES = (
    static.router,
    start.router,
    signing_in.router,
    oidc.router,
    links.router,
    account.router,
    browser.router,
    device_code.router,
)
