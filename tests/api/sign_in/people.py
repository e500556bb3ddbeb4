"""Users with passwords, as an invitation gives them, and browsers at addresses of their own."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import pyotp

from tests.api.accounts.people import People
from tests.ui.browser import Browser, Page

PASSWORD = "violet kayak mumbles"
_SECRET = re.compile(r"Secret:\s*((?:[A-Z2-7]{4} ?)+)")
_RECOVERY = re.compile(r"\b[0-9a-z]{5}-[0-9a-z]{5}\b")
_networks = itertools.count(1)


def somewhere() -> str:
    """An address in a network of its own: attempts from there are counted apart from all others."""
    number = next(_networks)
    return f"127.{10 + number // 250}.{number % 250 + 1}.1"


@dataclass
class SignIn:
    acme: People

    @property
    def url(self) -> str:
        return self.acme.served.url

    def browser(self, address: str | None = None, **headers: str) -> Browser:
        return Browser(self.url, address=address or somewhere(), **headers)

    def invite(self, name: str) -> str:
        """The address of the page that the link leads to."""
        made = self.acme.send("POST", f"/v1/users/{name}/invitation", token=self.acme.admin)
        assert made.status_code == 201, made.text
        return str(made.json()["link"]).removeprefix(self.url)

    def user(self, role: str = "member", *, password: str = PASSWORD, **place: str) -> str:
        """A user who has set a password by an invitation."""
        name = self.acme.add_user(role, **place)
        browser = self.browser()
        arrived = browser.send(browser.get(self.invite(name)), "/ui/invitation", password=password, repeated=password)
        assert (arrived.status, arrived.path) == (200, "/ui/"), arrived.text
        return name

    def signed_in(self, name: str, *, password: str = PASSWORD, address: str | None = None) -> Browser:
        browser = self.browser(address)
        arrived = browser.sign_in(name, password)
        assert (arrived.status, arrived.path) == (200, "/ui/"), arrived.text
        return browser

    def with_second_factor(self, browser: Browser) -> tuple[str, list[str]]:
        """The secret of the app, and the recovery codes."""
        page = browser.get("/ui/account/second-factor")
        secret = secret_on(page)
        shown = browser.send(page, "/ui/account/second-factor", code=pyotp.TOTP(secret).now())
        assert shown.status == 200, shown.text
        return secret, recovery_codes_on(shown)

    def forget_attempts(self) -> None:
        self.acme.served.ask("delete from sign_in_attempts")

    def may_use_codes_again(self, name: str) -> None:
        """As if half a minute had gone by since the last code."""
        self.acme.served.ask(
            "update second_factors set last_step = 0 where principal = (select id from principals where name = $1)",
            name,
        )

    def forget_sessions(self) -> None:
        """A change of accounts makes the node read sessions anew, as it would after 1.5 s."""
        self.acme.add_user("viewer")

    def audited(self, name: str, action: str) -> list[tuple[str, str]]:
        """Outcome and reason of each entry about the user, oldest first."""
        return [
            (outcome, reason)
            for outcome, reason in self.acme.served.ask(
                "select outcome, reason from audit_log where actor = $1 and action = $2 order by id", name, action
            )
        ]


def secret_on(page: Page) -> str:
    found = _SECRET.search(page.text)
    assert found is not None, page.text
    return found[1].replace(" ", "")


def recovery_codes_on(page: Page) -> list[str]:
    return _RECOVERY.findall(page.text)
