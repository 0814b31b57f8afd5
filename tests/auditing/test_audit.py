"""audit(): known-bad releases are caught, good ones are not; what its result holds."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from tests.reference.audit_condense import condensed
from tests.reference.audit_people import people_table
from tulle import Audit, audit
from tulle.auditing._tables import align
from tulle.auditing.audit import audited

FIGURES = ("rate", "low", "high", "baseline", "control", "risk")


# -- bad and good releases ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_whisper_of_noise_is_caught(data: tuple) -> None:
    people, control = data
    noise = np.random.default_rng(1).normal(0, 0.001, people.shape)
    found = audit(people, people + noise, control=control, random_state=1)
    attacks = found.to_dict()["attacks"]
    assert found.verdict["privacy"]["level"] == "bad"
    for name in ("near_copies", "linkage", "linkage_one_to_one", "membership", "singling_out"):
        assert attacks[name]["risk"] > 0.8, name
    assert found.to_dict()["metrics"]["nearest_record_loss"] < 0.01


def _people(count: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count)
    return pl.DataFrame({"x": x, "y": x + rng.normal(size=count), "z": rng.exponential(size=count)})


@pytest.mark.parametrize(
    "release, allowed",
    [
        (lambda own, others: own[:40], {"bad"}),  # a twentieth of the records, verbatim
        (lambda own, others: pl.concat([others[30:], own[:30]]), {"bad", "caution"}),
        (lambda own, others: others.select(-pl.all()), {"undecided"}),  # nobody can use it
        (lambda own, others: others, {"good", "undecided"}),
    ],
    ids=["a sample", "thirty people among others", "useless", "other people"],
)
def test_known_releases_are_judged_as_they_must_be(
    release: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame], allowed: set[str]
) -> None:
    own, control, others = (_people(n, seed) for seed, n in enumerate((800, 400, 800)))
    tables = align(own, release(own, others), control, None)
    assert audited(tables, 0, quick=True).verdict["privacy"]["level"] in allowed


@pytest.mark.slow
def test_groups_of_two_are_caught(data: tuple) -> None:
    people, control = data
    release = condensed(people, 2, np.random.default_rng(2))
    found = audit(people, release, control=control, random_state=1)
    attacks = found.to_dict()["attacks"]
    assert found.verdict["privacy"]["level"] == "bad"
    assert attacks["linkage"]["risk_low"] > 0.2
    assert attacks["membership"]["risk_low"] > 0.3
    assert any("Linkage" in reason for reason in found.verdict["privacy"]["details"])
    assert (
        audit(people, release, random_state=1).verdict["privacy"]["level"] == "bad"
    )  # without a control too


@pytest.mark.slow
def test_groups_of_thirty_are_not(data: tuple) -> None:
    people, control = data
    release = condensed(people, 30, np.random.default_rng(2))
    found = audit(people, release, control=control, random_state=1)
    attacks = found.to_dict()["attacks"]
    # with 350 strangers some attacks cannot be decided, and nothing is bad
    assert found.verdict["privacy"]["level"] in ("good", "caution", "undecided")
    for name in ("exact_copies", "near_copies", "linkage", "linkage_one_to_one", "singling_out"):
        assert attacks[name]["risk_low"] <= 0.01, name
    assert found.to_dict()["metrics"]["covariance_compatibility"] > 0.95


@pytest.mark.slow
def test_other_people_are_no_leak_even_if_there_is_no_control() -> None:
    rng = np.random.default_rng(12)
    original, strangers, control = (people_table(rng, 1500) for _ in range(3))
    told = audit(original, strangers, random_state=1)
    assert told.verdict["privacy"]["level"] == "caution"
    assert "there is no control to compare it with" in told.verdict["privacy"]["reason"]
    assert any("No control was given" in reason for reason in told.verdict["privacy"]["details"])
    assert told.to_dict()["attacks"]["inference:age"]["risk"] > 0.3  # over guessing: for anybody
    assert audit(original, strangers, control, random_state=1).verdict["privacy"]["level"] == "good"


@pytest.mark.slow
def test_without_a_control_a_copy_is_caught_and_the_report_asks_for_one(data: tuple) -> None:
    people, _ = data
    leak = audit(people, people[::-1], random_state=1)
    assert leak.verdict["privacy"]["level"] == "bad"
    assert leak.to_dict()["attacks"]["linkage"]["control"] is None
    assert "membership" not in leak.to_dict()["attacks"]
    fine = audit(people, condensed(people, 40, np.random.default_rng(3)), random_state=1)
    assert fine.to_dict()["attacks"]["linkage"]["rate"] < 0.05
    if fine.verdict["privacy"]["level"] == "good":
        assert any("No control" in reason for reason in fine.verdict["privacy"]["details"])


# -- the result --------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_result_has_the_names_that_others_rely_on(data: tuple) -> None:
    people, control = data
    found = audit(people, people, control=control, policy=None, random_state=3)
    whole = found.to_dict()
    assert isinstance(found, Audit)
    assert all(set(FIGURES) <= set(attack) for attack in whole["attacks"].values())
    assert all(math.isfinite(value) for value in whole["metrics"].values())
    assert json.loads(found.json())["attacks"].keys() == whole["attacks"].keys()
    assert "<html" in found.html()
    assert found.markdown().startswith("# Audit")
    assert "iframe" in found._repr_html_()
    assert repr(found).startswith("Audit(privacy=bad")
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.result = {}  # type: ignore[misc]
    whole["attacks"].clear()
    assert found.to_dict()["attacks"]


@pytest.mark.slow
def test_the_same_seed_repeats_every_figure(data: tuple) -> None:
    people, control = data
    release = condensed(people, 5, np.random.default_rng(2))
    runs = [
        audit(people, release, control=control, random_state=11, attempts=100).to_dict()
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    drawn = audit(people, release, attempts=20).to_dict()
    again = audit(
        people, release, attempts=20, random_state=drawn["provenance"]["audit seed"]
    ).to_dict()
    assert drawn == again


def test_extending_joins_what_a_workflow_knows(data: tuple) -> None:
    people, _ = data
    found = audit(people, people, random_state=0, attempts=20)
    more = found.extended(
        title="T",
        metrics={"groups": 3},
        sections=[{"id": "x", "title": "First", "blocks": []}],
        guarantee={"text": "g", "rows": [{"name": "k", "asked": 5, "found": 2, "holds": False}]},
    )
    assert more.to_dict()["metrics"]["groups"] == 3
    assert more.to_dict()["sections"][0]["title"] == "First"
    assert "Guarantee not met: k is 2" in more.verdict["privacy"]["details"][0]
    assert "groups" not in found.to_dict()["metrics"]
