"""Second factors: an app that counts codes from the time, and recovery codes for the day on which it is lost.

The secret of the app is sealed with the operator's master key, as the secrets of tasks are. It is shown while it is set
up and never again. Recovery codes are shown once and kept as hashes.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyotp
import segno

from rota.admit.authenticate import hash_secret
from rota.api.services import Services
from rota.model.errors import Problem, conflict
from rota.model.sign_in.codes import (
    RECOVERY_CODES,
    app_address,
    new_recovery_code,
    plain_recovery_code,
    step_of,
)
from rota.store.database import AnyConnection
from rota.store.envelope import CantOpen, Keyring, seal, unseal
from rota.store.principals import find_principal
from rota.store.second_factors import (
    SecondFactor,
    factor_name,
    read_second_factor,
    save_second_factor,
    set_recovery_codes,
    use_recovery_code,
    use_step,
)


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What somebody puts into an app: as text, as an address, and as a picture of the address."""

    secret: str = field(repr=False)
    address: str = field(repr=False)

    @property
    def grouped(self) -> str:
        return " ".join(self.secret[at : at + 4] for at in range(0, len(self.secret), 4))

    def picture(self) -> str:
        """For `<img src=…>`: an SVG, which the pages' policy allows as `data:`."""
        return segno.make(self.address, error="m").svg_data_uri(scale=4, border=3, dark="#000", light="#fff")


def keyring_of(services: Services) -> Keyring:
    if services.secret_keys is None:
        raise Problem(
            "secrets-unavailable",
            status=503,
            title="No second factors here",
            detail="this server node has no master key, which second factors are sealed with; its operator sets "
            "secrets_key (ROTA_SECRETS_KEY_FILE, or rota serve --secrets-key FILE)",
        )
    return services.secret_keys.keyring()


async def begin_enrolment(services: Services, connection: AnyConnection, principal: int, place: str) -> Enrolment:
    """A secret that counts as soon as a code of it was entered. Asked again, the same one until then."""
    keyring = keyring_of(services)
    user = await find_principal(connection, principal)
    kept = await read_second_factor(connection, principal)
    if kept is not None and kept.confirmed:
        raise conflict("second-factor-exists", "there is a second factor already: remove it first")
    secret = None if kept is None else _opened(keyring, principal, kept)
    if secret is None:
        secret = pyotp.random_base32()
        sealed = seal(keyring, factor_name(principal), secret, secrets.token_bytes)
        await save_second_factor(connection, principal, sealed)
    return Enrolment(secret, app_address(secret, user="" if user is None else user.name, place=place))


def _opened(keyring: Keyring, principal: int, factor: SecondFactor) -> str | None:
    """None: a master key that is gone sealed it, and nothing depends on it yet."""
    try:
        return unseal(keyring, factor_name(principal), factor.sealed)
    except CantOpen:
        return None


async def confirm_first_code(
    services: Services, connection: AnyConnection, principal: int, code: str
) -> tuple[str, ...] | None:
    """From now on the factor counts. Returns the recovery codes; None: the code is wrong."""
    kept = await read_second_factor(connection, principal)
    if kept is None or kept.confirmed or not await _is_good(services, connection, principal, kept, code):
        return None
    return await renew_recovery_codes(connection, principal)


async def check_code(services: Services, connection: AnyConnection, principal: int, code: str) -> bool:
    """Whether it is a code of the app, or a recovery code; either is good once."""
    recovery = plain_recovery_code(code)
    if recovery is not None:
        return await use_recovery_code(connection, principal, hash_secret(recovery))
    kept = await read_second_factor(connection, principal)
    return kept is not None and kept.confirmed and await _is_good(services, connection, principal, kept, code)


async def _is_good(
    services: Services, connection: AnyConnection, principal: int, kept: SecondFactor, code: str
) -> bool:
    try:
        secret = unseal(keyring_of(services), factor_name(principal), kept.sealed)
    except CantOpen as error:
        raise Problem(
            "secrets-unavailable",
            status=503,
            title="No second factors here",
            detail=f"this second factor can't be opened: {error}; use a recovery code, or ask an administrator",
        ) from None
    step = step_of(secret, code, now=datetime.now(UTC), after=kept.last_step)
    return step is not None and await use_step(connection, principal, kept, step)


async def renew_recovery_codes(connection: AnyConnection, principal: int) -> tuple[str, ...]:
    codes = tuple(new_recovery_code(secrets.choice) for _ in range(RECOVERY_CODES))
    await set_recovery_codes(connection, principal, [hash_secret(code) for code in codes])
    return codes
