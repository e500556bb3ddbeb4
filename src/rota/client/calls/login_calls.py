"""The requests of `rota login` and `rota logout`."""

from __future__ import annotations

from rota.client.calls.call import Call, get, post
from rota.model.answers.accounts import NewToken
from rota.model.answers.logins import DeviceLogin, LoginPages


def pages() -> Call[LoginPages]:
    return get("/v1/login", LoginPages)


def start_device(machine: str, *, lasts: str | None = None, tenant: str | None = None) -> Call[DeviceLogin]:
    body = {"machine": machine, "lasts": lasts, "tenant": tenant}
    return post("/v1/login/device", DeviceLogin, {name: value for name, value in body.items() if value is not None})


def token_for_code(code: str, verifier: str) -> Call[NewToken]:
    """Once: sent again, it revokes the token that it gave."""
    return post("/v1/login/token", NewToken, {"code": code, "code_verifier": verifier})


def token_for_device(device_code: str) -> Call[NewToken]:
    return post("/v1/login/token", NewToken, {"device_code": device_code})


def log_out() -> Call[None]:
    """Revokes the token that sends this."""
    return Call("POST", "/v1/logout", lambda _: None, repeatable=True)
