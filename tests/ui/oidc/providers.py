"""Two providers: `oidc-provider-mock`, a process that keeps to the rules, and a hostile one, which plays every trick."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit
from uuid import uuid4

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from tests.faults.scene import eventually
from tests.harness.cluster import free_port

CLIENT = "rota"
Answer = Callable[["Hostile", dict[str, str]], tuple[int, dict[str, Any] | bytes]]


class Mock:
    """`oidc-provider-mock` as a process of its own."""

    def __init__(self) -> None:
        self.port = free_port()
        self.issuer = f"http://127.0.0.1:{self.port}"
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore",
                "-m",
                "oidc_provider_mock",
                "--port",
                str(self.port),
                "--require-nonce",
                "true",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self._answers, seconds=60, what="the provider answers")

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.issuer}/jwks", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def person(self, subject: str, **claims: Any) -> str:
        """Adds or changes somebody."""
        set_up = httpx.put(f"{self.issuer}/users/{subject}", json=claims, trust_env=False)
        assert set_up.status_code == 204, set_up.text
        return subject

    def revoke(self, subject: str) -> None:
        """Takes back all tokens of somebody."""
        assert httpx.post(f"{self.issuer}/users/{subject}/revoke-tokens", trust_env=False).status_code == 204

    def agree(self, address: str, subject: str) -> str:
        """Somebody signs in at the provider; the address that the browser is sent back to."""
        answered = httpx.post(address, data={"sub": subject}, trust_env=False)
        assert answered.status_code == 302, answered.text
        return answered.headers["location"]

    def deny(self, address: str) -> str:
        answered = httpx.post(address, data={"action": "deny"}, trust_env=False)
        assert answered.status_code == 302, answered.text
        return answered.headers["location"]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


@dataclass
class Hostile:
    """A provider on loopback that does whatever a test says; unless told otherwise it is honest."""

    claims: dict[str, Any] = field(default_factory=dict)  # instead of the honest ones; None leaves a claim out
    userinfo: dict[str, Any] = field(default_factory=dict)
    discovery: dict[str, Any] = field(default_factory=dict)
    sign: Callable[[Hostile, dict[str, Any]], str] | None = None  # claims to a token
    token_answer: Answer | None = None
    page: Callable[[str], bytes | None] | None = None  # a path to a whole body
    hold: threading.Event | None = None  # answers wait for it
    refresh_token: str = ""
    seen: list[str] = field(default_factory=list)  # paths, in order
    forms: list[dict[str, str]] = field(default_factory=list)  # what was posted for tokens
    last_nonce: str = ""

    def __post_init__(self) -> None:
        self.key: Key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
        self.published: list[Key] = [self.key]
        self._challenges: dict[str, dict[str, str]] = {}
        hostile = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hostile.seen.append(urlsplit(self.path).path)
                if hostile.hold is not None:
                    hostile.hold.wait(60)
                self._send(*hostile._get(urlsplit(self.path).path))

            def do_POST(self) -> None:
                hostile.seen.append(self.path)
                form = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
                hostile.forms.append(form)
                self._send(*hostile._token(form))

            def _send(self, status: int, body: dict[str, Any] | bytes) -> None:
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        if self.hold is not None:
            self.hold.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def honest(self) -> None:
        """Forgets all tricks, but not its keys."""
        self.claims, self.userinfo, self.discovery = {}, {}, {}
        self.sign = self.token_answer = self.page = self.hold = None
        self.refresh_token = ""

    # ---- what a person and a browser do -------------------------------------------------------------------------

    def agree(self, address: str, subject: str = "eve") -> str:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["code_challenge_method"] == "S256"
        code = uuid4().hex
        self._challenges[code] = {**asked, "sub": subject}
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    # ---- what it answers ----------------------------------------------------------------------------------------

    def _get(self, path: str) -> tuple[int, dict[str, Any] | bytes]:
        whole = self.page(path) if self.page is not None else None
        if whole is not None:
            return 200, whole
        if path == "/.well-known/openid-configuration":
            honest = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                "jwks_uri": f"{self.issuer}/jwks",
                "id_token_signing_alg_values_supported": ["RS256", "ES256", "EdDSA"],
            }
            return 200, {name: value for name, value in {**honest, **self.discovery}.items() if value is not None}
        if path == "/jwks":
            return 200, {"keys": [key.as_dict(private=False) for key in self.published]}
        if path == "/userinfo":
            return 200, self.userinfo
        return 404, {}

    def _token(self, form: dict[str, str]) -> tuple[int, dict[str, Any] | bytes]:
        if self.token_answer is not None:
            return self.token_answer(self, form)
        asked = self._challenges.pop(form.get("code", ""), None)
        if asked is None:
            return 400, {"error": "invalid_grant"}
        if _base64(hashlib.sha256(form["code_verifier"].encode()).digest()) != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        self.last_nonce = asked["nonce"]
        claims = self.honest_claims(sub=asked["sub"], nonce=asked["nonce"])
        token = {"access_token": "access", "token_type": "bearer", "id_token": self.signed(claims)}
        return 200, {**token, **({"refresh_token": self.refresh_token} if self.refresh_token else {})}

    def honest_claims(self, **given: Any) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "email": f"{given.get('sub')}@example.org",
            "email_verified": True,
            "groups": ["ml"],
            **given,
            **self.claims,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def signed(self, claims: dict[str, Any]) -> str:
        return self.sign(self, claims) if self.sign is not None else signed_with(self.key, claims)


_ALGORITHMS = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}


def signed_with(key: Key, claims: dict[str, Any], **header: Any) -> str:
    fields = {"alg": _ALGORITHMS[key.key_type], "kid": key.kid, **header}
    return jwt.encode(fields, claims, key, algorithms=[fields["alg"]])


def unsigned(_: Hostile, claims: dict[str, Any]) -> str:
    """The algorithm `none`."""
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    return ".".join(_base64(json.dumps(one).encode()) for one in parts) + "."


def signed_with_public_key(hostile: Hostile, claims: dict[str, Any]) -> str:
    """HS256, with the provider's public key as the shared secret."""
    parts = ({"alg": "HS256", "typ": "JWT", "kid": hostile.key.kid}, claims)
    text = ".".join(_base64(json.dumps(one).encode()) for one in parts)
    secret = hostile.key.as_pem(private=False)
    return f"{text}.{_base64(hmac.digest(secret, text.encode(), 'sha256'))}"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def rsa(kid: str) -> Key:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


def elliptic(kid: str) -> Key:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


def edwards(kid: str) -> Key:
    return OKPKey.generate_key("Ed25519", {"kid": kid, "use": "sig"})
