"""What every test shares: marks, one seed by default, repeatable or random examples.

``TULLE_TEST_SEEDS=0-99`` runs the tests that draw data with many seeds;
``TULLE_FUZZ_EXAMPLES=10000`` (``make fuzz``) tries each property on so many examples, which are
different in every run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tests.examples  # noqa: F401 -- loads the profile of Hypothesis
from tests.servers import mariadb_server, postgres_server
from tulle.io._sql import connected, execute, parse


@pytest.fixture(scope="session", autouse=True)
def _owners_key(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the key that manifests name a source with out of the home of whoever runs the tests."""
    os.environ["TULLE_SOURCE_KEY"] = str(tmp_path_factory.mktemp("settings") / "source.key")


@pytest.fixture(autouse=True)
def _known_entropy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the operating system give each test the same bits in every run: a verdict may differ."""
    system = random.Random(request.node.nodeid)
    monkeypatch.setattr("secrets.randbits", system.getrandbits)
    monkeypatch.setattr("secrets.randbelow", system.randrange)
    monkeypatch.setattr("secrets.token_bytes", lambda n=None: system.randbytes(n or 32))


@pytest.fixture(autouse=True)
def _one_split(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a release be judged by one split, where a test is not about the judgement: it is fast."""
    if "every_split" not in request.fixturenames:
        monkeypatch.setattr("tulle.auditing._splits.SPLITS", ())


@pytest.fixture
def every_split() -> None:
    """Ask for as many splits as a table of that size needs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        cases = getattr(getattr(item, "callspec", None), "params", {})
        asks = {"postgres", "mariadb"} & {*getattr(item, "fixturenames", ())}
        if asks or cases.get("database") == "postgresql":
            item.add_marker(pytest.mark.server)


def _seeds() -> list[int]:
    asked = os.environ.get("TULLE_TEST_SEEDS", "0")
    first, _, last = asked.partition("-")
    return list(range(int(first), int(last or first) + 1))


@pytest.fixture(params=_seeds())
def seed(request: pytest.FixtureRequest) -> int:
    """A seed; ``TULLE_TEST_SEEDS=0-99`` finds tests that only pass on a lucky one."""
    return int(request.param)


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server; it starts with the first test that asks for it."""
    with postgres_server() as address:
        yield address


@pytest.fixture(scope="session")
def mariadb() -> Iterator[str]:
    """The address of a database on a MariaDB server, as that of ``postgres``."""
    with mariadb_server() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URI of an empty database, to which ``#table`` can be added."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/data base.db"
        return
    server = request.getfixturevalue("postgres")
    with connected(parse(server), writing=True) as connection:
        execute(connection, "DROP SCHEMA public CASCADE")
        execute(connection, "CREATE SCHEMA public")
        connection.commit()
    yield server
