"""Who may ask: the person who got the link, from this machine, from a page of this app.

A server on this machine can be reached by every page that the browser shows, so being local
protects nothing by itself. The guard is plain ASGI around everything else: no route, no static
file and no websocket goes past it.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ENTRANCE = "/enter"
_METHODS = ("GET", "HEAD", "POST", "PUT")
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    b"content-security-policy": CONTENT_POLICY.encode(),
    b"cache-control": b"no-store",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"same-origin",  # none at all would make the origin of forms null
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
}


class Guard:
    """Let requests through to ``app`` that come from a browser which opened the link.

    The link works once: it is exchanged for a cookie that scripts cannot read and that other
    sites cannot make the browser send.
    """

    def __init__(self, app: App, port: int) -> None:
        self.app = app
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.cookie = f"tulle-{port}"  # cookies do not know ports: two apps must not share one
        self._token: str | None = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)

    @property
    def link(self) -> str:
        """The one-time link."""
        return f"http://{self.hosts[0]}{ENTRANCE}?token={self._token}"

    @property
    def is_entered(self) -> bool:
        """Whether the link was used."""
        return self._token is None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is refused, and pass everything else on with strict headers."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = _headers(scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _answer(send, *refusal)
        elif scope["path"] == ENTRANCE:
            await self._enter(scope, send, from_elsewhere=_is_from_elsewhere(headers))
        elif not self._is_known(headers):
            await _answer(send, 403, _NO_COOKIE)
        else:
            await self.app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        """Return why a request is refused before anybody looks at what it asks."""
        if not _is_loopback(scope.get("client")):
            return 403, "Only this machine may ask."
        if len(headers.get("host", [])) != 1 or headers["host"][0] not in self.hosts:
            return 421, "This host name is not served here."
        if scope["method"] not in _METHODS:
            return 405, "This method is not served here."
        origins = headers.get("origin", [])
        own = [f"http://{host}" for host in self.hosts]
        if _is_from_elsewhere(headers) and scope["path"] != ENTRANCE:
            return 403, "Other sites may not ask."
        if any(origin not in own for origin in origins):
            return 403, "Other sites may not ask."
        return None

    async def _enter(self, scope: Scope, send: Send, *, from_elsewhere: bool) -> None:
        """Exchange the link for the cookie; a second time it opens nothing.

        A browser that a file led here would follow a redirection in the name of that file, and so
        without the cookie: it gets a page that goes on in its own.
        """
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        fits = self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())
        if not fits or scope["method"] != "GET":
            await _answer(send, 403, _USED)
            return
        self._token = None
        cookie = f"{self.cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
        found = [(b"set-cookie", cookie.encode())]
        if from_elsewhere:
            await _answer(send, 200, _GO_ON, found, kind=b"text/html; charset=utf-8")
        else:
            await _answer(send, 303, "", [*found, (b"location", b"/")])

    def _is_known(self, headers: dict[str, list[str]]) -> bool:
        for line in headers.get("cookie", []):
            try:
                found = SimpleCookie(line).get(self.cookie)
            except CookieError:
                continue
            if found is not None and hmac.compare_digest(
                found.value.encode(), self._session.encode()
            ):
                return True
        return False


_GO_ON = '<!doctype html><title>Tulle</title><meta http-equiv="refresh" content="0;url=/">'
_NO_COOKIE = "Open the link that `tulle app` printed: this browser has not done so."
_USED = "This link was used before, or is of another run. Stop `tulle app` and start it again."


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _is_from_elsewhere(headers: dict[str, list[str]]) -> bool:
    """Return whether a page of another origin, or a file, made the browser ask."""
    return any(site not in ("same-origin", "none") for site in headers.get("sec-fetch-site", []))


def _is_loopback(client: Any) -> bool:
    try:
        return client is not None and ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


def _with_headers(send: Send) -> Send:
    """Add the strict headers to a response; one that sets a header itself keeps it."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message.get("headers", [])}
            more = [pair for pair in _HEADERS.items() if pair[0] not in there]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return sending


async def _answer(
    send: Send,
    status: int,
    text: str,
    more: list[tuple[bytes, bytes]] | None = None,
    kind: bytes = b"text/plain; charset=utf-8",
) -> None:
    headers = [(b"content-type", kind), *_HEADERS.items(), *(more or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
