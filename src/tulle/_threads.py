"""Libraries on one thread: sums then have one order, and no thread spins while it waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _LinearAlgebra:
    """NumPy's products on one thread: the same bits, whatever the machine has.

    The limit is the whole process's, so the last one who leaves lifts it.
    """

    def __init__(self) -> None:
        self._entering = threading.Lock()
        self._inside = 0
        self._libraries: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        with self._entering:
            if self._inside == 0:
                self._libraries = self._libraries or ThreadpoolController()  # looks for them once
                self._limit = self._libraries.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._entering:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


linear_algebra_on_one = _LinearAlgebra()


@contextmanager
def models_on_one() -> Iterator[None]:
    """Keep models of scikit-learn to one thread while they learn and predict.

    At the sizes that are measured here, threads that wait for each other cost more than they
    bring, several times more on a busy machine; and they add up in an order of their own.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="openmp"):
        yield
