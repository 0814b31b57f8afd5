"""What every test shares: one seed by default, many on request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.servers import postgres_server
from tulle.io._sql import connected, execute, parse

settings.register_profile(
    "tulle", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tulle")


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
