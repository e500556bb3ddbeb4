"""Signing in: sessions, second factors, invitations, and the rules for them."""

from __future__ import annotations

import msgspec

from rota.model.answers.fields import Time


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A session began; its secret is in a cookie. The recovery codes of a new second factor are shown here only."""

    session: int
    recovery_codes: list[str] = []


class SignInNext(msgspec.Struct, frozen=True, kw_only=True):
    """The password was right. `next`: send a `code` of the second factor, or `enrol` first: set one up."""

    ticket: str
    next: str


class EnrolmentDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What to put into an app that counts codes: the secret, or the address that has it, as a QR code."""

    secret: str
    address: str


class SecondFactorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Whether there is one, whether a role asks for one, and how many recovery codes are left."""

    enabled: bool
    required: bool = False
    recovery_codes_left: int = 0


class RecoveryCodes(msgspec.Struct, frozen=True, kw_only=True):
    """Each is good once, instead of a code of the app. They are shown here only."""

    recovery_codes: list[str]


class SessionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A session of a signed-in user, in one browser."""

    id: int
    tenant: str = ""
    via: str = ""  # password, oidc or link
    created_at: Time | None = None
    seen_at: Time | None = None  # within a minute
    ends_at: Time | None = None
    address: str | None = None
    agent: str = ""
    current: bool = False  # the one of this request


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions of a user that have not ended, newest first."""

    user: str
    sessions: list[SessionDocument]


class SessionsEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How many sessions ended."""

    ended: int


class InvitationDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A link with which the user sets a password, once. It is shown here only."""

    user: str
    link: str
    ends_at: Time | None = None


class SignInRules(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever has one of these roles, anywhere, signs in with a second factor."""

    second_factor_roles: list[str]
