"""Compiled kernels are not older than the files that they are made of."""

from __future__ import annotations

import os
from pathlib import Path

import numba
import pytest
from numba.core.caching import CompileResultCacheImpl

from tulle._jit import forget_outdated, inlined, kernel


def _file(path: Path, changed: float) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    os.utime(path, (changed, changed))
    return path


def test_a_change_in_the_folder_outdates_what_was_compiled_before(tmp_path: Path) -> None:
    _file(tmp_path / "_kernels.py", 1_000.0)
    _file(tmp_path / "_parts.py", 3_000.0)
    index = _file(tmp_path / "__pycache__" / "_kernels.run-1.py311.nbi", 2_000.0)
    code = _file(tmp_path / "__pycache__" / "_kernels.run-1.py311.1.nbc", 2_000.0)
    newer = _file(tmp_path / "__pycache__" / "_parts.part-1.py311.nbi", 4_000.0)
    bytecode = _file(tmp_path / "__pycache__" / "_kernels.cpython-311.pyc", 2_000.0)
    forget_outdated(tmp_path, tmp_path / "__pycache__")
    assert not index.exists()
    assert not code.exists()
    assert newer.exists()
    assert bytecode.exists()


def test_a_file_from_the_future_outdates_nothing(tmp_path: Path) -> None:
    _file(tmp_path / "_kernels.py", 1_000.0)
    _file(tmp_path / "_parts.py", 1e11)
    compiled = _file(tmp_path / "__pycache__" / "_kernels.run-1.py311.nbi", 2_000.0)
    forget_outdated(tmp_path, tmp_path / "__pycache__")
    assert compiled.exists()


def test_a_folder_that_is_gone_is_no_error(tmp_path: Path) -> None:
    forget_outdated(tmp_path / "gone", tmp_path / "gone" / "__pycache__")


def test_kernels_are_looked_for_where_numba_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another folder than beside the file, if the owner says so or cannot write there."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    kept = Path(numba.njit(cache=True)(_one_more).stats.cache_path)
    assert kept.parent == tmp_path
    old = _file(kept / "test_jit._one_more-1.py311.nbi", 1_000.0)
    assert kernel(_one_more)(1) == 2
    assert not old.exists()


def test_a_kernel_runs_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    part = inlined(_one_more)

    def two_more(value: int) -> int:
        return part(part(value))

    assert kernel(two_more)(1) == 3


def _one_more(value: int) -> int:
    return value + 1
