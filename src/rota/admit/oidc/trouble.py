"""Why a sign-in through the provider fails: it is refused, or the provider does not answer as it should."""

from __future__ import annotations


class SignInRefused(Exception):
    """`code` is for the audit log and tests; `text` is a sentence for the person, `advice` what to do."""

    def __init__(self, code: str, text: str, advice: str = "Try again, or ask an administrator.") -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text
        self.advice = advice


class ProviderTrouble(SignInRefused):
    """The provider is away, or answers with something that is no answer. Nothing is known about the person."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(
            code, text, "Try again in a moment. If it stays like this, an administrator can run `rota doctor`."
        )


class GrantEnded(Exception):
    """The provider refuses to refresh: it ended the sign-in that the refresh token belongs to."""
