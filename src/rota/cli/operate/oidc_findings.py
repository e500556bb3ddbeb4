"""What `rota doctor` finds about single sign-on: whether the provider answers, and says what is needed."""

from __future__ import annotations

import asyncio

from rota.admit.oidc.metadata import DISCOVERY
from rota.admit.oidc.provider import Provider
from rota.admit.oidc.trouble import ProviderTrouble
from rota.cli.operate.finding import Finding
from rota.model.accounts.oidc import OidcSettings

_WHAT = "single sign-on"


def findings(settings: OidcSettings) -> list[Finding]:
    return asyncio.run(_findings(settings))


async def _findings(settings: OidcSettings) -> list[Finding]:
    provider = Provider(settings)
    try:
        metadata = await provider.metadata()
        keys = await provider.keys()
    except ProviderTrouble as trouble:
        address = settings.issuer.removesuffix("/") + DISCOVERY
        remedy = f"compare [oidc] issuer with the provider's page; try: curl {address}"
        return [Finding(_WHAT, "broken", trouble.text, remedy)]
    found = [Finding(_WHAT, "ok", f"{settings.issuer} answers, with {len(keys.keys)} keys for signatures")]
    if not keys:
        found = [
            Finding(_WHAT, "broken", f"{metadata.jwks_uri} has no key that is accepted", "see the provider's keys")
        ]
    if metadata.pkce is False:
        found.append(
            Finding(
                _WHAT, "missing", "the provider says that it does not check PKCE with S256", "allow it at the provider"
            )
        )
    if not settings.client_secret:
        found.append(
            Finding(
                _WHAT, "missing", "no client secret", "[oidc] client_secret_file, unless the client is a public one"
            )
        )
    return found
