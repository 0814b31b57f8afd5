"""Every benchmark still fits the library: ``python -m benchmarks`` can import and run it."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

import benchmarks

pytestmark = pytest.mark.slow

NAMES = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name.startswith("bench_")]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_can_be_run(name: str) -> None:
    assert callable(import_module(f"benchmarks.{name}").main)
