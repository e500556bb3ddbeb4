"""What all pages share: templates, headers that keep other sites and scripts out, and refusals that people can read.

A route of a page belongs to a router with `route_class=PageRoute`. It then refuses forms that another site sends, and
shows a `Problem` as a page; whoever is not signed in is led to the page for that, and back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined

from rota.admit.authenticate import unauthorized
from rota.api.services import Services, authorise, services
from rota.api.sign_in.cookies import check_own_site
from rota.model.errors import Problem
from rota.model.tenant import Caller
from rota.ui.static import address_of

START = "/ui/"
SIGN_IN = "/ui/sign-in"
PROVE = "/ui/prove"

# The address in a link that signs somebody in is a secret: no page tells any other where its reader came from.
# `strict-origin` still says which site a form comes from, which `check_own_site` needs of older browsers.
_HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "strict-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
# A path of this server: no host, no scheme, no backslash, which browsers take for a slash.
_LOCAL = re.compile(r"^/(?![/\\])[\x21-\x5b\x5d-\x7e]*\Z", re.ASCII)
_LONGEST_ADDRESS = 2_000

_templates = Environment(
    loader=PackageLoader("rota.ui"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_templates.globals["static"] = address_of


def page(
    request: Request,
    template: str,
    *,
    status: int = 200,
    form_targets: Sequence[str] = (),
    **values: Any,
) -> Response:
    """`form_targets`: other origins that an answer to a form of the page may redirect to."""
    oidc = services(request).settings.oidc
    text = _templates.get_template(template).render(path=request.url.path, oidc=oidc, **values)
    targets = " ".join(["'self'", *form_targets])
    policy = (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; "
        f"form-action {targets}; frame-ancestors 'none'; base-uri 'none'"
    )
    return HTMLResponse(text, status, {**_HEADERS, "content-security-policy": policy})


def redirect(to: str) -> Response:
    """After a form: the browser asks for another page, so that a reload sends nothing again."""
    return RedirectResponse(to, 303, _HEADERS)


def safe_next(text: str | None) -> str:
    """Where to go after signing in: a path of this server, whatever a link asks for."""
    fits = text is not None and len(text) <= _LONGEST_ADDRESS and _LOCAL.match(text)
    return text if text and fits else START


async def signed_in(request: Request) -> tuple[Services, Caller]:
    """The services, and the user whose session it is; a token does not open pages."""
    if request.headers.get("authorization") is not None:
        raise unauthorized()
    return await authorise(request)


class PageRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                check_own_site(request, services(request).settings)
                return await handle(request)
            except Problem as problem:
                return _refused(request, problem)

        return guarded


def _refused(request: Request, problem: Problem) -> Response:
    """`next` is only ever the address of a page to look at: a form is not sent again after signing in."""
    path = request.url.path
    here = path + (f"?{request.url.query}" if request.url.query else "")
    back = here if request.method == "GET" else "/".join(path.split("/")[:3]) if path.count("/") > 2 else START
    if problem.status == 401:
        return redirect(f"{SIGN_IN}?{urlencode({'next': back}, quote_via=quote)}")
    if problem.slug == "proof-needed":
        return redirect(f"{PROVE}?{urlencode({'next': back}, quote_via=quote)}")
    answer = page(request, "problem.html", status=problem.status, title=problem.title, detail=problem.detail)
    if problem.retry_after_seconds is not None:
        answer.headers["retry-after"] = str(max(1, round(problem.retry_after_seconds)))
    return answer
