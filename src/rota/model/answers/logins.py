"""Logins of programs: where people allow them, and the codes of one that has begun."""

from __future__ import annotations

import msgspec


class LoginPages(msgspec.Struct, frozen=True, kw_only=True):
    """Where somebody allows a login: in a browser on the program's machine, or with a code on any other."""

    browser: str
    device: str


class DeviceLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login that has begun. People type `user_code`; the program exchanges `device_code` (RFC 8628)."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str  # with the code filled in
    expires_in: int  # seconds
    interval: int  # seconds to wait between two questions

    def __repr__(self) -> str:
        return f"DeviceLogin(verification_uri={self.verification_uri!r})"
