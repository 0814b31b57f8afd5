"""Attacks on the guard of the app: all of them are refused, and nothing changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.app.asking import HOST, Asked

OWN = {"origin": f"http://{HOST}", "sec_fetch_site": "same-origin"}


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path).enter()


def test_the_link_opens_the_app_once(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    link = asked.guard.link.partition(HOST)[2]
    assert asked.ask("HEAD", link).status == 403  # a preview does not use it up
    assert asked.ask("GET", "/enter?token=guess").status == 403
    first = asked.ask("GET", link)
    assert (first.status, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert asked.ask("GET", link).status == 403
    asked.cookie = cookie.partition(";")[0]
    assert asked.ask("GET", "/").status == 200


def test_a_file_may_lead_a_browser_to_the_link_and_nowhere_else(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    link = asked.guard.link.partition(HOST)[2]
    assert asked.ask("GET", "/enter?token=guess", sec_fetch_site="cross-site").status == 403
    assert not asked.guard.is_entered
    first = asked.ask("GET", link, sec_fetch_site="cross-site")
    assert first.status == 200
    assert 'content="0;url=/"' in first.text  # its own page goes on: a redirect has no cookie
    assert asked.guard.is_entered
    asked.cookie = first.headers["set-cookie"].partition(";")[0]
    assert asked.ask("GET", "/", sec_fetch_site="cross-site").status == 403
    assert asked.ask("GET", "/", sec_fetch_site="same-origin").status == 200


@pytest.mark.parametrize("path", ["/", "/history", "/static/app.js", "/t/0/data", "/nothing"])
@pytest.mark.parametrize("cookie", ["", "tulle-8765=guess", "other=1", "tulle-8765"])
def test_nothing_is_shown_without_the_cookie(tmp_path: Path, path: str, cookie: str) -> None:
    asked = Asked(tmp_path)
    asked.cookie = cookie
    assert asked.ask("GET", path).status == 403


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{HOST[-4:]}", "127.0.0.1", "localhost:1", "", "[::1]"]
)
def test_other_host_names_are_not_served(asked: Asked, host: str) -> None:
    assert asked.ask("GET", "/", host=host).status == 421


def test_other_machines_are_not_served(asked: Asked) -> None:
    assert asked.ask("GET", "/", client="192.0.2.7").status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},  # another port of this machine
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"http://{HOST}", "sec_fetch_site": "cross-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_sites_may_not_ask(
    asked: Asked, tmp_path: Path, method: str, headers: dict[str, str]
) -> None:
    assert asked.ask(method, "/demo", **headers).status == 403
    assert list(tmp_path.iterdir()) == []
    assert asked.ask("POST", "/demo", **OWN).status == 303


def test_websockets_are_closed(asked: Asked) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/", "headers": [(b"cookie", asked.cookie.encode())]}
    asyncio.run(asked.guard(scope, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


@pytest.mark.parametrize("path", ["/", "/nothing", "/t/0/data", "/enter?token=x"])
def test_every_answer_has_the_strict_headers(asked: Asked, path: str) -> None:
    headers = asked.ask("GET", path).headers
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("method", ["DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_not_served(asked: Asked, method: str) -> None:
    assert asked.ask(method, "/").status == 405


def test_looking_changes_nothing(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age,town\n1,x\n2,y\n")
    identity = asked.ask("GET", "/").text.partition('href="/t/')[2][:12]
    before = sorted(tmp_path.rglob("*"))
    for page in ("data", "roles", "context", "explore", "release", "inspect", "first",
                 "column", "cancel", "compare", "points/x", "releases/1",
                 "releases/1/restore"):  # fmt: skip
        answer = asked.ask("GET", f"/t/{identity}/{page}")
        led_back = answer.headers.get("location") == f"/t/{identity}/data"  # before its time
        assert answer.status in (200, 400, 405) or (answer.status == 303 and led_back)
    for page in ("/demo", "/upload"):
        assert asked.ask("GET", page).status == 405
    assert sorted(tmp_path.rglob("*")) == before
