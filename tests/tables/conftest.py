from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server; each test names tables of its own."""
    with postgres_server() as address:
        yield address
