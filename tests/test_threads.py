"""Libraries on one thread."""

from __future__ import annotations

from threadpoolctl import threadpool_info

from tulle._threads import linear_algebra_on_one, models_on_one


def numpy_threads() -> set[int]:
    return {lib["num_threads"] for lib in threadpool_info() if "numpy" in lib["filepath"]}


def test_linear_algebra_gets_its_threads_back_when_the_last_one_leaves() -> None:
    before = numpy_threads()
    with linear_algebra_on_one:
        with linear_algebra_on_one:
            assert numpy_threads() == {1}
        assert numpy_threads() == {1}
    assert numpy_threads() == before


def test_models_are_on_one_thread() -> None:
    import sklearn.ensemble  # noqa: F401  brings OpenMP along

    with models_on_one():
        libraries = [lib for lib in threadpool_info() if lib["user_api"] == "openmp"]
        assert libraries
        assert {lib["num_threads"] for lib in libraries} == {1}
