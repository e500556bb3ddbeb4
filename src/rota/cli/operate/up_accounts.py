"""What `rota up` says about accounts: the link for the first administrator, and which profile is in use."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from rota.admit.setup_link import SETUP_LASTS
from rota.client.transport.profile import read_profile
from rota.client.transport.starting import profile_path


def what_is_kept(kept: Path) -> str:
    if read_profile(profile_path()).login is not None:
        return f"Your `rota login` stays in use; the administrator's token is in {kept} (`rota logout` puts it back)."
    return f"The profile of another server that you had is kept in {kept}; ROTA_PROFILE={kept} uses it."


def offer_setup(console: Console, url: str, code: str | None) -> None:
    """Until there is an administrator who can sign in, with a browser on this machine."""
    if code is None:
        return
    minutes = int(SETUP_LASTS.total_seconds() // 60)
    console.print(
        f"To sign in with a browser, make the first administrator (within {minutes} minutes, once):", soft_wrap=True
    )
    # Plain: a link is copied as a whole, and a style would be in the way.
    console.print(f"  {url}/ui/setup?code={code}", soft_wrap=True, highlight=False, markup=False)
