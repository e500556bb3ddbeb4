"""What a provider says about itself (OpenID Connect Discovery), read strictly. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.admit.oidc.id_token import ALGORITHMS
from rota.admit.oidc.trouble import ProviderTrouble
from rota.model.accounts.oidc import address_fault

DISCOVERY = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class Metadata:
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    algorithms: tuple[str, ...]  # those of its signatures that we accept
    pkce: bool | None  # whether it says that it checks PKCE with S256; None: it does not say
    names_itself: bool  # its answers say which provider they are from (RFC 9207)
    by_body: bool  # it takes the client's secret in the body only


def metadata_of(document: Mapping[str, Any], issuer: str) -> Metadata:
    """Raises `ProviderTrouble`."""
    said = document.get("issuer")
    if said != issuer:
        raise ProviderTrouble(
            "wrong-issuer",
            f"the provider calls itself {str(said)[:100]!r}, and [oidc] issuer is {issuer!r}; they must be equal",
        )
    signed = _words(document, "id_token_signing_alg_values_supported") or ["RS256"]
    algorithms = tuple(one for one in ALGORITHMS if one in signed)
    if not algorithms:
        raise ProviderTrouble(
            "wrong-algorithm", f"the provider signs with none of {', '.join(ALGORITHMS)}; choose one there"
        )
    methods = _words(document, "code_challenge_methods_supported")
    ways = _words(document, "token_endpoint_auth_methods_supported")
    return Metadata(
        authorization_endpoint=_address(document, "authorization_endpoint"),
        token_endpoint=_address(document, "token_endpoint"),
        jwks_uri=_address(document, "jwks_uri"),
        userinfo_endpoint=_address(document, "userinfo_endpoint") if document.get("userinfo_endpoint") else None,
        end_session_endpoint=_address(document, "end_session_endpoint")
        if document.get("end_session_endpoint")
        else None,
        algorithms=algorithms,
        pkce=None if methods is None else "S256" in methods,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
        by_body=ways is not None and "client_secret_basic" not in ways and "client_secret_post" in ways,
    )


def _address(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    fault = address_fault(value, query=True) if isinstance(value, str) else "it is missing"
    if fault is not None or not isinstance(value, str):
        raise ProviderTrouble("bad-discovery", f"{name} of the provider's discovery document: {fault}")
    return value


def _words(document: Mapping[str, Any], name: str) -> list[str] | None:
    value = document.get(name)
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else None
