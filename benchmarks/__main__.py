"""Runs every benchmark: ``python -m benchmarks [--quick]``."""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module

import benchmarks

quick = "--quick" in sys.argv
for module in pkgutil.iter_modules(benchmarks.__path__):
    if module.name.startswith("bench_"):
        print(f"== {module.name}")
        import_module(f"benchmarks.{module.name}").main(quick)
