"""What a report says that records were drawn from is what they were drawn from."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tulle.condense._grouping import Grouper
from tulle.condense._papers import Papers
from tulle.condense._shaped import Shape
from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser

pytestmark = pytest.mark.slow
PAPERS = ["uniform", "normal", "mean"]


def table(n: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    age = rng.normal(50, 15, n)
    return pl.DataFrame(
        {
            "age": age.round(1),
            "income": (age * 60 + rng.normal(0, 300, n)).round(),
            "city": rng.choice(["Bern", "Chur", "Genf"], n),
            "sex": rng.choice(["f", "m"], n),
        }
    )


def fitted(synthesis: str = "shape", **parameters: Any) -> Condenser:
    return Condenser(k=10, synthesis=synthesis, random_state=0, **parameters).fit(table())


def numbers(sentence: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", sentence)]


def shape_of(condenser: Condenser) -> Shape:
    assert isinstance(condenser._synthesis, Shape)
    return condenser._synthesis


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_the_numbers_are_those_of_the_model(monkeypatch: pytest.MonkeyPatch, exact: bool) -> None:
    formed: list[np.ndarray] = []
    group = Grouper.__call__

    def watched(self: Grouper, points: Any, demands: Any) -> Any:
        formed.append(group(self, points, demands))
        return formed[-1]

    monkeypatch.setattr(Grouper, "__call__", watched)
    condenser = fitted(exact_totals=exact)
    (shaped,) = shape_of(condenser).tables
    cell, leaf, alike = numbers(condenser._synthesis.sentence())
    assert alike == np.bincount(formed[-1]).min() == condenser.people_.min() >= 50
    assert leaf == shaped.model.leaf == (10 if exact else 20)
    assert min(forest.fewest for forest in shaped.model.forests) >= leaf
    assert cell == 10
    assert all((table()[name].value_counts()["count"] >= cell).all() for name in ("city", "sex"))


@pytest.mark.parametrize("piece", ["groups", "forests"])
def test_a_shape_is_drawn_from_groups_and_leaves(piece: str) -> None:
    wanted, other = fitted(), fitted()
    (shaped,) = shape_of(other).tables
    model = shaped.model
    assert model.groups is not None
    if piece == "groups":
        changed = replace(model, groups=replace(model.groups, means=model.groups.means[::-1]))
    else:
        changed = replace(model, forests=[model.forests[0], *fitted_on_noise(model)])
    shape_of(other).tables = [replace(shaped, model=changed)]
    assert not wanted.sample().equals(other.sample())


def fitted_on_noise(model: Any) -> list[Any]:
    """Return the forests of the other columns with leaves whose cells are in another order."""
    forests = []
    for forest in model.forests[1:]:
        trees = tuple(replace(tree, cells=tree.cells[::-1].copy()) for tree in forest.trees)
        forests.append(replace(forest, trees=trees))
    return forests


@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
@pytest.mark.parametrize("synthesis", PAPERS)
def test_the_papers_records_are_drawn_from_what_the_sentence_names(synthesis: str) -> None:
    wanted, other = fitted(synthesis), fitted(synthesis)
    sentence = wanted._synthesis.sentence()
    assert numbers(sentence) == [wanted.counts_.min()]
    papers = other._synthesis
    assert isinstance(papers, Papers)
    papers.moments = replace(papers.moments, scatters=np.zeros_like(papers.moments.scatters))
    assert ("covariance" in sentence) == (not wanted.sample().equals(other.sample()))


def test_a_shape_names_and_holds_no_covariance_of_a_group() -> None:
    condenser = fitted()
    assert "covariance" not in condenser._synthesis.sentence()
    with pytest.raises(AttributeError):
        _ = condenser.covariances_


@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
@pytest.mark.parametrize("synthesis", ["shape", "uniform"])
def test_of_classes_the_smallest_group_speaks(synthesis: str) -> None:
    frame = table()
    y = np.where(np.arange(300) < 60, "few", "many")
    template = Condenser(synthesis=synthesis)
    condenser = ClassCondenser(template, k=10, random_state=0).fit(frame, y)
    assert numbers(condenser._synthesis.sentence())[-1] == condenser.people_.min()


@pytest.mark.parametrize("synthesis", ["shape", "uniform"])
def test_of_levels_no_size_is_named(synthesis: str) -> None:
    levels = np.r_[np.full(290, 12), np.full(10, 37)]
    condenser = Condenser(synthesis=synthesis, random_state=0).fit(table(), levels=levels)
    assert not numbers(condenser._synthesis.sentence(sizes=False))


@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_people_are_counted_and_not_rows() -> None:
    frame = table().with_columns(person=np.arange(300) // 2)
    columns = {"person": "person"}
    condenser = Condenser(k=10, synthesis="uniform", columns=columns, random_state=0).fit(frame)
    assert numbers(condenser._synthesis.sentence()) == [condenser.people_.min()]
    assert condenser.rests_on_["which records are alike (a group)"] == condenser.people_.min()
