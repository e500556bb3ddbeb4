"""The requests about accounts: users, service accounts, their roles and tokens, and who the caller is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rota.client.calls.call import Call, delete, get, patch, post, put, query_of, reader, segment
from rota.model.answers import accounts as documents
from rota.model.answers import sign_in

Role = Mapping[str, str]  # role, and tenant or pool, or neither for everywhere


def whoami() -> Call[documents.Whoami]:
    return get("/v1/whoami", documents.Whoami)


def users(*, after: str | None = None, limit: int | None = None) -> Call[documents.UserList]:
    """By name. `after`: the `next` of the page before."""
    return get("/v1/users", documents.UserList, {"after": after, "limit": limit})


def user(name: str) -> Call[documents.UserDocument]:
    """By name or mail address."""
    return get(_user(name), documents.UserDocument)


def add_user(name: str, *, email: str | None = None, role: Role | None = None) -> Call[documents.UserDocument]:
    body = {"name": name, **(role or {})}
    return post("/v1/users", documents.UserDocument, body if email is None else {**body, "email": email})


def change_user(name: str, changes: Mapping[str, object]) -> Call[documents.UserDocument]:
    return patch(_user(name), documents.UserDocument, changes)


def remove_user(name: str) -> Call[None]:
    return delete(_user(name))


def grant_user(name: str, role: Role) -> Call[documents.UserDocument]:
    return post(f"{_user(name)}/bindings", documents.UserDocument, role)


def revoke_user(name: str, role: Role) -> Call[documents.UserDocument]:
    call = Call("DELETE", f"{_user(name)}/bindings", reader(documents.UserDocument))
    return replace(call, query=query_of(role))


def service_accounts(*, after: str | None = None, limit: int | None = None) -> Call[documents.ServiceAccountList]:
    """By name. `after`: the `next` of the page before."""
    return get("/v1/service-accounts", documents.ServiceAccountList, {"after": after, "limit": limit})


def service_account(name: str) -> Call[documents.ServiceAccountDocument]:
    return get(_service(name), documents.ServiceAccountDocument)


def add_service_account(name: str, *, role: Role | None = None) -> Call[documents.ServiceAccountDocument]:
    return post("/v1/service-accounts", documents.ServiceAccountDocument, {"name": name, **(role or {})})


def disable_service_account(name: str, disabled: bool) -> Call[documents.ServiceAccountDocument]:
    return patch(_service(name), documents.ServiceAccountDocument, {"disabled": disabled})


def remove_service_account(name: str) -> Call[None]:
    return delete(_service(name))


def grant_service_account(name: str, role: Role) -> Call[documents.ServiceAccountDocument]:
    return post(f"{_service(name)}/bindings", documents.ServiceAccountDocument, role)


def revoke_service_account(name: str, role: Role) -> Call[documents.ServiceAccountDocument]:
    call = Call("DELETE", f"{_service(name)}/bindings", reader(documents.ServiceAccountDocument))
    return replace(call, query=query_of(role))


def tokens() -> Call[documents.TokenList]:
    return get("/v1/tokens", documents.TokenList)


def token(token: str) -> Call[documents.TokenDocument]:
    """By id or name."""
    return get(f"/v1/tokens/{segment(token)}", documents.TokenDocument)


def add_token(wanted: Mapping[str, object]) -> Call[documents.NewToken]:
    """`wanted`: the fields of the request, such as `scopes` and `expires`."""
    return post("/v1/tokens", documents.NewToken, wanted)


def rotate_token(token: str, *, overlap: str | None = None, expires: str | None = None) -> Call[documents.NewToken]:
    """By id or name. `overlap`: how long the old text is valid too; the server's default is a day."""
    body = {"overlap": overlap, "expires": expires}
    given = {name: value for name, value in body.items() if value is not None}
    return post(f"/v1/tokens/{segment(token)}/rotate", documents.NewToken, given)


def revoke_token(token: str) -> Call[None]:
    return delete(f"/v1/tokens/{segment(token)}")


def _user(name: str) -> str:
    return f"/v1/users/{segment(name)}"


def _service(name: str) -> str:
    return f"/v1/service-accounts/{segment(name)}"


# ---- signing in ------------------------------------------------------------------------------------------------------


def invite_user(name: str) -> Call[sign_in.InvitationDocument]:
    """A link with which the user sets a password, once."""
    return post(f"{_user(name)}/invitation", sign_in.InvitationDocument)


def reset_second_factor(name: str) -> Call[None]:
    return delete(f"{_user(name)}/second-factor")


def sessions(user: str | None = None) -> Call[sign_in.SessionList]:
    """Of a user; None: the caller's own."""
    return get("/v1/sessions", sign_in.SessionList, {"user": user})


def end_session(number: int) -> Call[None]:
    return delete(f"/v1/sessions/{number}")


def end_sessions(user: str | None = None) -> Call[sign_in.SessionsEnded]:
    """All of a user but the caller's own."""
    call = Call("DELETE", "/v1/sessions", reader(sign_in.SessionsEnded))
    return replace(call, query=query_of({"user": user}))


def sign_in_rules() -> Call[sign_in.SignInRules]:
    return get("/v1/sign-in/rules", sign_in.SignInRules)


def set_sign_in_rules(second_factor_roles: Sequence[str]) -> Call[sign_in.SignInRules]:
    return put("/v1/sign-in/rules", sign_in.SignInRules, {"second_factor_roles": list(second_factor_roles)})
