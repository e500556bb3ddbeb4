"""HTTP to a provider, bounded in time and size: a slow or talkative one costs a sign-in, never the server node."""

from __future__ import annotations

import asyncio

import httpx

from rota.admit.oidc.trouble import ProviderTrouble

ANSWER_SECONDS = 10.0  # for a whole answer
MOST_BYTES = 512 * 1024
_CONNECT_SECONDS = 5.0
_MOST_CONNECTIONS = 20


class BoundedTransport(httpx.AsyncBaseTransport):
    """Reads whole answers. Redirects are not followed, and nothing is unpacked: a small answer stays small."""

    def __init__(self, inner: httpx.AsyncBaseTransport, *, seconds: float = ANSWER_SECONDS) -> None:
        self._inner = inner
        self._seconds = seconds

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["accept-encoding"] = "identity"
        where = f"{request.url.scheme}://{request.url.netloc.decode(errors='replace')}{request.url.path}"[:200]
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._inner.handle_async_request(request)
                try:
                    content = await _read(answer, where)
                finally:
                    await answer.aclose()
        except TimeoutError:
            raise ProviderTrouble("provider-slow", f"{where} did not answer within {self._seconds:g} s") from None
        except httpx.TimeoutException:
            raise ProviderTrouble("provider-slow", f"{where} did not answer in time") from None
        except httpx.HTTPError as error:
            raise ProviderTrouble("provider-away", f"{where} can't be reached ({type(error).__name__})") from None
        headers = {name: answer.headers[name] for name in ("content-type",) if name in answer.headers}
        return httpx.Response(answer.status_code, headers=headers, content=content)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _read(answer: httpx.Response, where: str) -> bytes:
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise ProviderTrouble("bad-answer", f"{where} packs its answers, which it was asked not to do")
    assert isinstance(answer.stream, httpx.AsyncByteStream)
    content = bytearray()
    async for part in answer.stream:
        content += part
        if len(content) > MOST_BYTES:
            raise ProviderTrouble("answer-too-long", f"{where} sends more than {MOST_BYTES // 1024} KiB")
    return bytes(content)


def limits() -> httpx.Limits:
    return httpx.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=2, keepalive_expiry=30.0)


def timeouts() -> httpx.Timeout:
    return httpx.Timeout(ANSWER_SECONDS, connect=_CONNECT_SECONDS)
