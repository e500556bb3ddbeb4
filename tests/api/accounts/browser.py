"""A browser with a session of a user, as far as logins of programs need one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from rota.model.accounts.logins import challenge_of
from tests.api.accounts.people import People

VERIFIER = "v" * 50
STATE = "s" * 20
BACK = "http://127.0.0.1:40123/"
CODE = re.compile(r"^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$")
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')
_FORM = {"content-type": "application/x-www-form-urlencoded"}


@dataclass
class Browser:
    people: People
    headers: dict[str, str] = field(repr=False)

    @staticmethod
    def of(people: People, user: str, *, proved: bool = True) -> Browser:
        return Browser(people, people.session_of(user, proved=proved))

    def get(self, address: str) -> httpx.Response:
        """A path, or an address of the server as a program prints it."""
        path = address.removeprefix(self.people.served.url)
        return self.people.send("GET", path, token=None, headers=self.headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        return self.people.send(
            "POST", path, urlencode(fields).encode(), token=None, headers={**self.headers, **_FORM, **headers}
        )

    def decide(self, shown: httpx.Response, decision: str = "allow") -> httpx.Response:
        """Presses a button of the page that asks."""
        assert shown.status_code == 200, shown.text
        [action] = set(re.findall(r'<form method="post" action="([^"]+)"', shown.text))
        return self.post(action, {**hidden_of(shown), "decision": decision})

    def allow_code(self, user_code: str, decision: str = "allow") -> httpx.Response:
        return self.decide(self.post("/ui/device", {"code": user_code}), decision)

    def code_for(self, **asked: str) -> str:
        """Of a login that the user allows."""
        led = self.decide(self.get(login_address(**asked)))
        assert led.status_code == 303, led.text
        return answer_in(led)["code"]


def hidden_of(shown: httpx.Response) -> dict[str, str]:
    return {unescape(name): unescape(value) for name, value in _HIDDEN.findall(shown.text)}


def answer_in(led: httpx.Response) -> dict[str, str]:
    """What the browser is told to take to the program."""
    assert led.headers["location"].startswith(BACK), led.headers["location"]
    location = urlsplit(led.headers["location"])
    return {name: value for name, [value] in parse_qs(location.query).items()}


def login_address(**asked: str) -> str:
    """As `rota login` makes it; a field that is "" is left out."""
    given = {
        "machine": "laptop",
        "redirect_uri": BACK,
        "state": STATE,
        "code_challenge": challenge_of(VERIFIER),
        "code_challenge_method": "S256",
        **asked,
    }
    return f"/ui/login?{urlencode({name: value for name, value in given.items() if value})}"
