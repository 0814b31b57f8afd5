"""Compiled kernels are not older than the files they are made of, and need no private numba."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import tulle
from tulle._jit import borrowed, forget_outdated, inlined, kernel, part


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_kernel_runs_where_nothing_can_be_kept() -> None:
    """Numba refuses to keep what comes from no file, as it does where no folder is writable."""
    names = {"part": inlined(_one_more)}
    exec("def two_more(value):\n    return part(part(value))", names)
    assert kernel(names["two_more"])(1) == 3


@pytest.mark.slow
def test_borrowed_arrays_are_the_callers_own() -> None:
    given = np.zeros(3), (np.ones(3), np.arange(3))
    assert kernel(_write_into)(given) == 6.0
    np.testing.assert_array_equal(given[0], [5.0, 5.0, 5.0])
    assert sys.getrefcount(given[0]) == sys.getrefcount(given[1][0])


@pytest.mark.slow
def test_of_numba_only_what_it_documents_is_used() -> None:
    """Its manual has the events and, for extensions, ``cgutils``; the rest of its core moves."""
    documented = {"cgutils", "event"}
    for path in Path(tulle.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numba.core"):
                assert node.module == "numba.core", path
                assert {name.name for name in node.names} <= documented, path
            if isinstance(node, ast.Call):
                options = {keyword.arg or "" for keyword in node.keywords}
                assert "pipeline_class" not in options, path
                assert "_nrt" not in options, path


def _one_more(value: int) -> int:
    return value + 1


@part
def _fill(arrays: tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]) -> float:
    first, (second, third) = arrays
    first[:] = 5.0
    return float(second.sum() + third.sum())


def _write_into(arrays: tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]) -> float:
    total = 0.0
    for _ in range(1):
        total += _fill(borrowed(arrays))
    return total
