"""A browser without scripts: it keeps cookies, follows links and redirects, and sends forms as they are on the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import httpx


@dataclass
class Form:
    action: str
    method: str
    values: dict[str, str] = field(default_factory=dict)  # as they are filled in
    inputs: dict[str, dict[str, str]] = field(default_factory=dict)


class Page(HTMLParser):
    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.answer = answer
        self.status = answer.status_code
        self.path = answer.request.url.path
        self.forms: list[Form] = []
        self.labels: set[str] = set()
        self.ids: set[str] = set()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self._said: list[str] = []
        self._in_form = False
        self.feed(answer.text)
        self.text = " ".join(" ".join(self._said).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "form":
            self._in_form = True
            self.forms.append(Form(given.get("action", self.path), given.get("method", "get")))
        elif tag in ("input", "select") and self._in_form:
            self.forms[-1].inputs[given["name"]] = given
            self.forms[-1].values[given["name"]] = given.get("value", "")
        elif tag == "label":
            self.labels.add(given.get("for", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._in_form = False

    def handle_data(self, data: str) -> None:
        self._said.append(data)

    def form(self, action: str) -> Form:
        return next(form for form in self.forms if form.action == action)

    def links(self) -> list[str]:
        return [given["href"] for tag, given in self.tags if tag == "a"]


class Browser:
    def __init__(self, url: str, *, address: str | None = None, agent: str = "Browser/1.0", **headers: str) -> None:
        """`address`: the one of this machine that requests come from."""
        transport = httpx.HTTPTransport(local_address=address, retries=0)
        self.url = url
        self.http = httpx.Client(
            base_url=url, transport=transport, timeout=60, headers={"user-agent": agent, **headers}, trust_env=False
        )

    def cookie(self, name: str = "rota") -> str | None:
        return self.http.cookies.get(name)

    def get(self, address: str) -> Page:
        answer = self.http.get(address, follow_redirects=True)
        return Page(answer)

    def send(self, page: Page, action: str, **filled: str) -> Page:
        """A form of the page with its hidden fields, as a click on its button sends it."""
        form = page.form(action)
        unknown = filled.keys() - form.values.keys()
        assert not unknown, f"the form has no {unknown}"
        return self.post(action, {**form.values, **filled})

    def post(self, address: str, values: dict[str, str], **headers: str) -> Page:
        sent = {"sec-fetch-site": "same-origin", "origin": self.url, **headers}
        return Page(self.http.post(address, data=values, headers=sent, follow_redirects=True))

    def sign_in(self, name: str, password: str, *, after: str = "/ui/") -> Page:
        return self.send(self.get(f"/ui/sign-in?next={after}"), "/ui/sign-in", name=name, password=password)

    def json(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """As a script of a page of the server asks the API."""
        sent = {"sec-fetch-site": "same-origin", **headers}
        return (
            self.http.request(method, path, json=body, headers=sent)
            if body is not None
            else self.http.request(method, path, headers=sent)
        )
