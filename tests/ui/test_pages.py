"""What holds for every page: headers that keep scripts and other sites out, and addresses that stay on this server."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api.permissions import OPEN_PAGES, PAGE_RULES
from rota.ui.pages import START, safe_next
from rota.ui.routers import PAGES
from tests.api.accounts.people import People
from tests.api.served import Served

STATIC = re.compile(r'href="(/ui/static/[^"]+)"')


def test_a_page_lets_no_script_and_no_other_site_in(served: Served) -> None:
    shown = served.send("GET", "/ui/sign-in", token=None)
    assert shown.status_code == 200
    assert shown.headers["content-security-policy"] == (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    )
    assert shown.headers["cache-control"] == "no-store"
    assert shown.headers["referrer-policy"] == "strict-origin"
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert "<script" not in shown.text
    assert "style=" not in shown.text


def test_files_of_pages_are_kept_by_browsers_until_they_change(served: Served) -> None:
    [address] = STATIC.findall(served.send("GET", "/ui/sign-in", token=None).text)
    sent = served.send("GET", address, token=None)
    assert sent.headers["content-type"].startswith("text/css")
    assert "immutable" in sent.headers["cache-control"]
    assert served.send("GET", address.partition("?")[0], token=None).headers["cache-control"] == "no-store"
    assert served.send("GET", "/ui/static/pages.py", token=None).status_code == 404


def test_whoever_is_not_signed_in_is_led_to_the_page_for_that_and_back(served: Served) -> None:
    led = served.send("GET", "/ui/?from=mail", token=None)
    assert (led.status_code, led.headers["location"]) == (303, "/ui/sign-in?next=%2Fui%2F%3Ffrom%3Dmail")


def test_a_token_opens_no_page(served: Served) -> None:
    assert served.send("GET", "/ui/").status_code == 303


def test_a_session_opens_pages(served: Served, acme: People) -> None:
    ann = acme.add_user("member")
    shown = served.send("GET", "/ui/", token=None, headers=acme.session_of(ann))
    assert (shown.status_code, ann in shown.text) == (200, True)


def test_every_page_is_in_the_table() -> None:
    assert {route.endpoint.__name__ for router in PAGES for route in router.routes} == PAGE_RULES.keys() | OPEN_PAGES


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "ui/",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/ui/\r\nset-cookie: a=b",
        "/ui/\tx",
        " /ui/",
        "/ui/\x7f",
        "/ui/ä",
        "/" + "a" * 3_000,
    ],
)
def test_nothing_but_a_path_of_this_server_is_gone_to_after_signing_in(text: str | None) -> None:
    assert safe_next(text) == START


def test_a_path_with_its_query_is_gone_to() -> None:
    assert safe_next("/ui/account?a=b&c=%2F") == "/ui/account?a=b&c=%2F"


@given(st.text(max_size=40) | st.text("/\\.:@?#a \t\r\n", max_size=20))
def test_no_text_leads_to_another_server(text: str) -> None:
    """As browsers read addresses: they drop tabs and line breaks, and take backslashes for slashes."""
    as_browsers_do = re.sub(r"[\t\r\n]", "", safe_next(text)).strip().replace("\\", "/")
    assert re.match(r"/(?!/)", as_browsers_do)
