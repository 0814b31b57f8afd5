"""What no public estimator may do: keep, show or reveal the rows it was given.

The estimators are found by looking (``tests/estimators.py``), so that a new one cannot escape.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.estimators import CASES, Case, public_estimators
from tulle.errors import KeyMaterialError


def parts(thing: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Everything reachable from an object: attributes, items, members."""
    seen = set() if seen is None else seen
    if id(thing) in seen or thing is None or isinstance(thing, type):
        return
    seen.add(id(thing))
    yield thing
    if isinstance(thing, str | bytes | int | float | np.generic | np.random.Generator):
        return
    if isinstance(thing, np.ndarray):
        if thing.dtype == object:
            yield from (part for item in thing.ravel() for part in parts(item, seen))
        return
    if sp.issparse(thing):
        yield from (thing.tocsr().data, thing.toarray())
        return
    if hasattr(thing, "to_numpy") and hasattr(thing, "columns"):
        yield from (np.asarray(thing[name]) for name in thing.columns)
        return
    if isinstance(thing, Mapping):
        children: list[Any] = [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        children = list(thing)
    else:
        children = list(getattr(thing, "__dict__", {}).values())
        slots = getattr(type(thing), "__slots__", ())
        children += [getattr(thing, slot) for slot in slots if hasattr(thing, slot)]
    for child in children:
        yield from parts(child, seen)


def fitted(case: Case) -> tuple[Any, tuple[Any, ...]]:
    estimator, data = case.make(), case.data()
    case.fit(estimator, *data)
    return estimator, data


every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
# what is fitted on a release may keep it
private_cases = pytest.mark.parametrize(
    "case",
    [case for case in CASES.values() if not case.holds_release],
    ids=[name for name, case in CASES.items() if not case.holds_release],
)


def test_every_public_estimator_has_a_case() -> None:
    assert {estimator.__name__ for estimator in public_estimators()} == set(CASES)


@pytest.mark.slow
@private_cases
def test_no_row_and_no_row_number_stays(case: Case) -> None:
    estimator, data = fitted(case)
    secrets = {tuple(row) for row in case.rows(*data)}
    length = len(secrets)
    for part in parts(estimator):
        if isinstance(part, np.ndarray) and part.ndim == 2:
            assert not secrets & {tuple(row) for row in part.tolist()}
        if isinstance(part, np.ndarray | list | tuple) and not isinstance(part, str):
            assert len(part) != length or part.ndim == 2, "something is kept for each row"


@pytest.mark.slow
@private_cases
def test_few_cells_stay_and_none_is_shown(case: Case) -> None:
    estimator, data = fitted(case)
    cells = {value for row in case.rows(*data) for value in row if isinstance(value, float)}
    kept = {
        value
        for part in parts(estimator)
        for value in (part.ravel().tolist() if isinstance(part, np.ndarray) else [part])
        if isinstance(value, float)
    } & cells
    # the extremes of a column bound what is released (spec, section 5); nothing else may stay
    assert len(kept) <= 2 * case.width(*data)
    shown = repr(estimator) + str(vars(estimator).keys())
    assert not any(repr(value) in shown for value in cells)


@pytest.mark.slow
@private_cases
def test_pickle_holds_no_row(case: Case) -> None:
    estimator, data = fitted(case)
    try:
        stored = pickle.dumps(estimator)
    except KeyMaterialError:
        return  # a key is never pickled, so nothing was stored
    for row in case.rows(*data):
        if all(isinstance(value, float) for value in row):
            assert np.asarray(row).tobytes() not in stored


@pytest.mark.slow
@every_case
def test_input_is_unchanged_and_not_shared(case: Case) -> None:
    estimator, data = case.make(), case.data()
    before = copy.deepcopy(data)
    case.fit(estimator, *data)
    for given, kept in zip(data, before):
        assert case.same(given, kept)
    inputs = [thing for thing in data if isinstance(thing, np.ndarray)]
    for part in parts(estimator):
        if isinstance(part, np.ndarray):
            assert not any(np.shares_memory(part, given) for given in inputs)


@pytest.mark.slow
@every_case
def test_same_seed_same_release_and_no_seed_another(case: Case) -> None:
    if case.release is None:
        return
    first, again = (case.release(*fitted(case)) for _ in range(2))
    assert case.same(first, again)


@every_case
def test_parameters_are_only_assigned(case: Case) -> None:
    marker = object()
    kind = type(case.make())
    for name in case.make().get_params(deep=False):
        given = {**case.make().get_params(deep=False), name: marker}
        assert getattr(kind(**given), name) is marker
