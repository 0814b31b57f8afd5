"""A recipe: a release that is tested as code is. Copy this beside your tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

Gate = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def gate() -> Gate:
    """Audit the release that the environment names: ``gate("--max-linkage", "2%")``.

    A gate that does not hold fails the test in one line; what was found comes back.
    """

    def check(*gates: str) -> dict[str, Any]:
        files = [os.environ["TULLE_ORIGINAL"], os.environ["TULLE_RELEASE"]]
        options = ["--control", os.environ["TULLE_CONTROL"], "--seed", "0", "--json", *gates]
        if policy := os.environ.get("TULLE_POLICY"):
            options += ["--policy", policy]
        command = [sys.executable, "-m", "tulle", "audit", *files, *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:  # 1: a gate failed; 2: the tables cannot be compared
            pytest.fail(done.stderr.strip(), pytrace=False)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return check
