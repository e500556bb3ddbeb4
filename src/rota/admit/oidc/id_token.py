"""Judges an ID token: signature, issuer, audience, times, nonce. Pure: the keys and the time are arguments.

Only signatures of public keys count: never `none`, never a shared secret, with which whoever knows the public key could
sign. A token is only ever read after its signature was found good.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from authlib.oidc.core.util import create_half_hash  # type: ignore[import-untyped]
from joserfc import jws, jwt
from joserfc.errors import (
    BadSignatureError,
    InvalidKeyIdError,
    JoseError,
    UnsupportedAlgorithmError,
)
from joserfc.jwk import JWKRegistry, Key, KeySet

from rota.admit.oidc.trouble import SignInRefused

ALGORITHMS = ("RS256", "ES256", "PS256", "EdDSA", "Ed25519")
LEEWAY_SECONDS = 60.0  # by which the provider's clock and ours may differ
MOST_KEYS = 100

_LONGEST_TOKEN = 64 * 1024
_LONGEST_SUBJECT = 255  # OpenID Connect Core, section 2
_LEAST_RSA_BITS = 2048
_OTHER_USES = frozenset({"at+jwt", "logout+jwt", "application/at+jwt", "application/logout+jwt"})


class UnknownKey(SignInRefused):
    """The provider may have new keys."""


class _Registry(jws.JWSRegistry):
    max_header_length = 8 * 1024  # some providers send certificates


def key_set(document: Mapping[str, Any]) -> KeySet:
    """The public keys that a provider signs with; those that are not understood are left out."""
    keys: list[Key] = []
    found = document.get("keys")
    for data in found[:MOST_KEYS] if isinstance(found, list) else []:
        if not isinstance(data, dict) or data.get("kty") not in ("RSA", "EC", "OKP") or data.get("use") == "enc":
            continue
        try:
            key = JWKRegistry.import_key(data)
            key.ensure_kid()
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if data["kty"] != "RSA" or key.public_key.key_size >= _LEAST_RSA_BITS:  # type: ignore[union-attr]
            keys.append(key)
    return KeySet(keys)


def judged(
    token: str,
    keys: KeySet,
    *,
    algorithms: Sequence[str],
    issuer: str,
    client_id: str,
    nonce: str | None,
    access_token: str | None,
    now: float,
) -> Mapping[str, Any]:
    """The claims of a good token. Raises `SignInRefused`. `nonce` None: of a refresh, which has none."""
    header, claims = _verified(token, keys, [one for one in algorithms if one in ALGORITHMS])
    if str(header.get("typ", "")).lower() in _OTHER_USES:
        raise _refused("wrong-type", "what the provider sent is not an ID token")
    if claims.get("iss") != issuer:
        raise _refused("wrong-issuer", "the ID token is not from the configured provider")
    _check_audience(claims, client_id)
    _check_times(claims, now)
    given = claims.get("nonce")
    if nonce is not None and not (isinstance(given, str) and hmac.compare_digest(given.encode(), nonce.encode())):
        raise _refused("wrong-nonce", "the ID token is not the answer to this sign-in")
    _check_access_token(claims, access_token, str(header["alg"]))
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT or not subject.isprintable():
        raise _refused("no-subject", "the ID token does not say who it is about")
    return claims


def _verified(token: str, keys: KeySet, algorithms: list[str]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    if len(token) > _LONGEST_TOKEN:
        raise _refused("malformed-token", "the ID token is too long")
    try:
        found = jwt.decode(
            token, keys, registry=_Registry(algorithms=algorithms or ["RS256"], strict_check_header=False)
        )
    except InvalidKeyIdError:
        raise UnknownKey(
            "unknown-key", "the ID token is signed with a key that the provider does not publish"
        ) from None
    except UnsupportedAlgorithmError:
        raise _refused("wrong-algorithm", "the ID token is signed in a way that is not accepted") from None
    except BadSignatureError:
        raise _refused("bad-signature", "the signature of the ID token is wrong") from None
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise _refused("malformed-token", f"the ID token can't be read ({type(error).__name__})") from None
    return found.header, found.claims


def _check_audience(claims: Mapping[str, Any], client_id: str) -> None:
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    party = claims.get("azp")
    if client_id not in audiences or (party is None and len(audiences) > 1) or party not in (None, client_id):
        raise _refused("wrong-audience", "the ID token is for another client")


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    expires, issued, begins = (_time(claims.get(name)) for name in ("exp", "iat", "nbf"))
    if expires is None or issued is None:
        raise _refused("malformed-token", "the ID token does not say when it was issued and when it expires")
    if expires <= now - LEEWAY_SECONDS:
        raise _refused("expired", "the ID token has expired; the clocks may differ")
    if issued > now + LEEWAY_SECONDS or (begins is not None and begins > now + LEEWAY_SECONDS):
        raise _refused("issued-in-future", "the ID token is from the future; the clocks differ")


def _time(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _check_access_token(claims: Mapping[str, Any], access_token: str | None, algorithm: str) -> None:
    """`at_hash` ties the access token to the ID token, if the provider sends it."""
    given = claims.get("at_hash")
    if given is None or access_token is None:
        return
    wanted = create_half_hash(access_token, "EdDSA" if algorithm == "Ed25519" else algorithm)
    if not isinstance(given, str) or not wanted or not hmac.compare_digest(given.encode(), wanted):
        raise _refused("wrong-at-hash", "the ID token and the access token do not belong together")


def _refused(code: str, text: str) -> SignInRefused:
    return SignInRefused(
        code, text, "Try again. If it stays like this, the settings of the provider and of Rota differ."
    )
