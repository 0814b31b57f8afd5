"""Work on several threads in one order; libraries on one thread, where sums then have one order."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

_LITTLE = 500_000  # numbers that one thread is done with before others have begun
_worker = threading.local()
Item = TypeVar("Item")
Result = TypeVar("Result")


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


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Yield the results of work done by several threads, in the order of the items.

    No more than twice as many results wait as there are threads: memory stays bounded. Work that
    is itself part of such work stays on its thread: the cores are taken.
    """
    if threads == 1 or getattr(_worker, "busy", False):
        yield from map(work, items)
        return
    pending: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads, initializer=stay_on_thread)
    try:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) >= 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def on_all_cores(work: Callable[[Item], Result], items: Iterable[Item], size: int) -> list[Result]:
    """Return the results of independent work, which goes through about so many numbers in all."""
    return list(in_order(work, items, cores() if size > _LITTLE else 1))


def stay_on_thread() -> None:
    """Keep all that this thread does from now on to itself: somebody else divides the cores."""
    _worker.busy = True


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
