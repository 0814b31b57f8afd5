"""People in the data, and people who were kept out."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.audit_people import matrix


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    people = matrix(np.random.default_rng(0))
    return people[:350], people[350:]
