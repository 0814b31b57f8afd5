"""The frontier: points that are kept, a choice that can be explained, a scale that is right."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import Browser
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests.report.browser import Opened, chromium
from tulle import Column, DataError, Kind, ParameterError, Role, explore
from tulle.auditing._learning import utility
from tulle.auditing._tables import align
from tulle.exploring import Exploration
from tulle.exploring import _points as points_module
from tulle.exploring._choice import choose, scaled
from tulle.exploring._points import People, Point, Spec, points_in


def people(rows: int, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, rows)
    smokes = rng.random(rows) < 0.3
    pay = rng.normal(1000 + 20 * age, 150).round()
    ill = rng.random(rows) < np.where(smokes, 0.7, 0.1)
    return pl.DataFrame(
        {"age": age, "pay": pay, "smokes": smokes, "ill": np.where(ill, "yes", "no")}
    )


SMALL: dict[str, Any] = {"k": [3, 25], "methods": ["shape"], "random_state": 0, "attempts": 60}


@pytest.fixture(scope="module")
def found() -> Exploration:
    return explore(people(500), target="ill", **SMALL)


def test_the_points_of_a_frontier(found: Exploration) -> None:
    labels = [point.spec.label for point in found.points]
    assert labels == [
        "the records themselves",
        "columns shuffled",
        *("1 % of the people", "5 % of the people", "10 % of the people"),
        "40 % of the people",
        *("k = 3, shape, class by class", "k = 25, shape, class by class"),
        *("k = 3, shape", "k = 25, shape"),
    ]
    audits = [point.audit for point in found.points if point.spec.is_release]
    for k, audit in zip([3, 25, 3, 25], audits):  # groups are known to the maker only
        assert audit["sections"][0]["id"] == "groups"
        assert audit["smallest_group"] >= k
    copy, shuffled = found.points[:2]
    assert copy.level == "bad"
    assert copy.risk > 0.9
    assert shuffled.attacks["linkage"]["risk"] < 0.1
    assert copy.scoring == "roc_auc"
    assert copy.utility > 0.7 > 0.65 > shuffled.utility
    assert all(p.risk_low <= p.risk <= p.risk_high + 1e-9 for p in found.points)
    assert all(p.records == 350 for p in found.points)  # of 500, three tenths are kept out
    assert {row["k"] for row in found.rows()} == {None, 3, 25}
    assert found.audit(25).to_dict()["attacks"]
    assert found.audit(25, "shape").to_dict()["title"] == "Release with k = 25, shape"
    with pytest.raises(ParameterError):
        found.audit(7)


def test_samples_are_of_people_with_all_their_rows() -> None:
    who = np.repeat(np.arange(100), 3)
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"patient": who, "age": rng.normal(50, 9, 300)})
    columns = (Column("patient", Kind.INTEGER, Role.PERSON), Column("age", Kind.DECIMAL))
    whole = People(table[:240], table[240:], columns)
    assert whole.count == 80
    some = whole.sample(30, 50, rng)
    assert (some.count, some.control.height) == (30, 60)  # there are 20 others
    assert set(some.members.group_by("patient").len()["len"]) == {3}
    often = replace(whole, members=pl.concat([table[:240]] * 4))  # 12 rows each
    assert often.sample(30, 50, rng).count == 12  # 5 rows each, of 30 people
    assert set(table[whole.drawn(table, 7, rng)]["patient"].value_counts()["count"]) == {3}


def test_a_point_shows_itself_in_a_few_lines(found: Exploration) -> None:
    assert all(len(repr(point)) < 1_000 for point in found.points)


@pytest.mark.slow
def test_without_a_target_columns_are_predicted_from_each_other() -> None:
    found = explore(people(300), rounds=["quick"], **SMALL)
    assert {point.scoring for point in found.points} == {"columns"}
    assert {point.spec.round for point in found.points} == {"quick"}
    copy, shuffled = found.points[:2]
    assert copy.utility > shuffled.utility + 0.1
    assert all(point.audit is None for point in found.points)


@pytest.mark.slow
def test_numbers_are_scored_by_r2_and_scoring_can_be_chosen() -> None:
    table = people(300)
    assert explore(table, target="pay", rounds=["quick"], **SMALL).points[0].scoring == "r2"
    chosen = explore(table, target="ill", scoring="f1_macro", rounds=["quick"], **SMALL)
    assert chosen.points[0].scoring == "f1_macro"


@pytest.mark.slow
def test_clusters_are_a_task_of_their_own() -> None:
    """Blobs are found again in the copy and in a release, not in shuffled columns."""
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [9, 0], [0, 9], [9, 9], [20, 20]])
    blobs = centres[rng.integers(0, 5, 400)] + rng.normal(size=(400, 2))
    table = pl.DataFrame(blobs, schema=["x", "y"])
    options = {"k": [5], "methods": ["shape"], "random_state": 0, "attempts": 40}
    found = explore(table, task="clusters", rounds=["quick"], **options)
    copy, shuffled, *_, release = found.points
    assert {point.scoring for point in found.points} == {"clusters"}
    assert copy.utility == pytest.approx(1)
    assert copy.metrics["cluster_error"] == pytest.approx(1)
    assert release.utility > 0.9 > 0.7 > shuffled.utility
    assert 1 <= release.metrics["cluster_error"] < 1.5 < shuffled.metrics["cluster_error"]
    assert found.rows()[-1]["cluster_error"] == release.metrics["cluster_error"]
    assert "agreement of clusters" in found.html()
    with pytest.raises(ParameterError, match="scoring"):
        explore(table, task="clusters", scoring="r2", **options)


def test_the_mean_gain_of_columns_agrees_with_trees_of_ones_own() -> None:
    tables = [people(400, seed) for seed in (1, 2, 3)]
    score, scoring = utility(align(*tables, None), None, None, np.random.default_rng(0))
    codes = [t.select(pl.col("pay", "age").cast(float), pl.col("ill") == "yes", "smokes").to_numpy()
             for t in tables]  # fmt: skip
    gains = []
    for column in range(4):
        others = [i for i in range(4) if i != column]
        (_, train, test) = codes
        kind = DecisionTreeRegressor if column < 2 else DecisionTreeClassifier
        model = kind(min_samples_leaf=5, random_state=0).fit(train[:, others], train[:, column])
        guess = model.predict(test[:, others])
        if column < 2:
            gains.append(max(0.0, r2_score(test[:, column], guess)))
        else:
            gains.append(max(0.0, 2 * balanced_accuracy_score(test[:, column], guess) - 1))
    assert scoring == "columns"
    assert score == pytest.approx(np.mean(gains), abs=0.05)  # ties are split otherwise


@pytest.mark.slow
def test_points_are_files_and_are_never_measured_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, folder = people(300), tmp_path / "frontier"
    seen: list[str] = []

    def stop_after_four(point: Point, done: int, total: int) -> None:
        seen.append(point.spec.label)
        assert (done, total) == (len(seen), 8)
        assert (folder / "points" / f"{point.id}.json").exists()
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore(table, folder, progress=stop_after_four, **SMALL)
    # what was measured can be used: the page is there, and the points can be read
    assert len(list(points_in(folder))) == 4
    assert json.loads((folder / "explore.json").read_text())["chosen_k"] is None
    assert "columns shuffled" in (folder / "explore.html").read_text()

    measured: list[str] = []
    original = points_module.measured

    def counted(name: str, spec: Spec, *rest: Any) -> Point:
        measured.append(spec.label)
        return original(name, spec, *rest)

    monkeypatch.setattr(import_module("tulle.exploring.explore"), "measured", counted)
    whole = explore(table, folder, **SMALL)
    assert len(measured) == 4
    again = explore(table, folder, **{**SMALL, "random_state": None})  # the seed of before
    assert len(measured) == 4
    assert again.to_dict() == whole.to_dict()
    explore(table[:290], folder, **SMALL)
    assert len(measured) == 12


@pytest.mark.slow
def test_a_file_that_cannot_be_read_is_measured_again(tmp_path: Path) -> None:
    found = explore(people(200), tmp_path, rounds=["quick"], **{**SMALL, "k": [3]})
    files = sorted((tmp_path / "points").iterdir())
    assert len(files) == len(found.points) == 7
    files[0].write_text("{")
    files[1].write_text('{"spec": 1}')
    again = explore(people(200), tmp_path, rounds=["quick"], **{**SMALL, "k": [3]})
    assert len(again.points) == 7
    assert json.loads(files[0].read_text())["id"] == files[0].stem
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


@pytest.mark.slow
def test_a_release_that_is_not_possible_is_a_point_with_a_reason() -> None:
    table = people(200).with_columns(ill=pl.Series(["yes"] * 8 + ["no"] * 192))
    found = explore(table, target="ill", rounds=["quick"], **SMALL)
    possible = {p.spec.k: p for p in found.points if p.spec.is_release}
    assert possible[25].error
    assert possible[25].level == "none"
    assert not possible[3].error
    assert found.k != 25


@pytest.mark.slow
def test_roles_decide_what_is_released() -> None:
    table = people(300).with_columns(name=pl.Series([f"n{i}" for i in range(300)]))
    columns = [
        Column("age", Kind.INTEGER, Role.QUASI),
        Column("pay", Kind.DECIMAL, Role.SENSITIVE),
        Column("smokes", Kind.BOOLEAN, Role.QUASI),
        Column("ill", Kind.CATEGORY, Role.TARGET),
        Column("name", Kind.TEXT, Role.IDENTIFIER),
    ]
    found = explore(table, columns=columns, rounds=["quick"], **SMALL)
    assert not any("name" in name for point in found.points for name in point.attacks)
    levels = [replace(columns[0], role=Role.LEVEL), *columns[1:]]
    with pytest.raises(ParameterError, match="levels"):
        explore(table, columns=levels, **SMALL)


@pytest.mark.slow
def test_a_control_of_ones_own_is_taken() -> None:
    found = explore(people(300), control=people(150, 1), rounds=["quick"], **SMALL)
    assert found.points[0].records == 300
    assert found.points[0].attacks["exact_copies"]["control_attempts"] == 150
    with pytest.raises(DataError, match="pay"):
        explore(people(300), control=people(150).drop("pay"), **SMALL)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"k": []}, "k"),
        ({"k": 5}, "k"),
        ({"k": [1]}, "k"),
        ({"methods": "shape"}, "methods"),
        ({"methods": ["other"]}, "methods"),
        ({"scoring": "nonsense"}, "scoring"),
        ({"rounds": ["slow"]}, "rounds"),
        ({"target": "agee"}, "target"),
        ({"gates": {"max_linkage": 5}}, "max_linkage"),
        ({"gates": {"max_nothing": 0.1}}, "gate"),
    ],
)
def test_wrong_parameters_are_named(wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        explore(people(50), **wrong)


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file"):
        explore(people(50), tmp_path / "file")


# The choice, on points whose figures are made up.


def _point(k: int | None, level: str, risk: float = 0.01, **more: Any) -> Point:
    attack = {"risk": risk, "risk_high": risk + more.pop("spread", 0.2), "control": 0.1}
    judged = {"level": level, "reason": f"It is {level}.", "next": "Do that.", "details": []}
    use = {"level": more.pop("use", "good"), "reason": "Of use.", "next": "Use it.", "details": []}
    spec = more.pop("spec", Spec("whole", "shape", k=k))
    filled: dict[str, Any] = {
        "risk": risk,
        "utility": 0.8,
        "attacks": {"linkage": attack},
        "verdict": {"privacy": judged, "use": use},
        **more,
    }
    return Point(f"{spec.label}", spec, 100, 100, **filled)


def test_the_smallest_k_with_a_good_verdict_is_named() -> None:
    points = [_point(3, "bad"), _point(5, "caution"), _point(10, "good"), _point(20, "good")]
    choice = choose(points)
    assert (choice.point, choice.level) == (points[2], "good")
    assert "k = 10" in choice.reason
    assert "--k 10" in choice.next


def test_of_one_k_the_most_useful_is_named() -> None:
    better = _point(10, "good", utility=0.9, spec=Spec("whole", "uniform", True, 10))
    choice = choose([_point(10, "good"), better])
    assert choice.point is better
    assert "--synthesis uniform" in choice.next
    assert "--target" in choice.next


def test_a_reservation_is_told_and_needs_room() -> None:
    points = [_point(3, "caution", 0.09), _point(10, "undecided", 0.02), _point(20, "caution")]
    choice = choose(points)
    assert choice.point is points[1]
    assert choice.level == "undecided"
    assert "reservation" in choice.reason
    sure = _point(30, "caution", 0.06, spread=0.02)  # its interval stays below what is grave
    assert choose([*points[:2], sure]).point is sure
    unclear = choose([_point(3, "undecided", 0.08), _point(10, "bad", 0.4)])
    assert (unclear.point, unclear.level) == (None, "undecided")
    assert unclear.next == "Do that."  # the verdict says how many people it takes


def test_a_lucky_k_is_not_named() -> None:
    lucky = [_point(3, "good"), _point(5, "bad", 0.3), _point(10, "good"), _point(20, "good")]
    assert choose(lucky).point is lucky[2]
    other = _point(5, "bad", 0.3, spec=Spec("whole", "uniform", k=5))
    assert choose([lucky[0], other, *lucky[2:]]).point is lucky[0]


def test_a_good_k_stands_next_to_one_that_is_not_decided() -> None:
    good, open_ = _point(10, "good"), _point(30, "undecided", 0.08)
    assert choose([good, open_]).point is good
    assert choose([good, _point(30, "caution", 0.3)]).point is None


def test_none_passes_and_what_to_change() -> None:
    choice = choose([_point(3, "bad", 0.5), _point(40, "bad", 0.3)])
    assert choice.point is None
    assert choice.level == "bad"
    assert "k = 40" in choice.reason
    assert "40" in choice.next
    assert "Do that." in choice.next
    useless = choose([_point(3, "bad", 0.5), _point(40, "bad", 0.3, use="bad")])
    assert useless.next == "Do that."  # no larger k
    nothing = choose([Point("p", Spec("whole", "shape", k=3), 9, error="classes are too small")])
    assert nothing.point is None
    assert "classes are too small" in nothing.reason


def test_the_choice_does_not_contradict_the_rows() -> None:
    """Where no k passes, but the safest is rated caution, the whole is not rated bad."""
    near = choose([_point(3, "bad", 0.5), _point(40, "caution", 0.09)])
    assert (near.point, near.level) == (None, "caution")
    assert "k = 40" in near.reason
    lucky = choose([_point(10, "good"), _point(30, "caution", 0.3)])
    assert (lucky.point, lucky.level) == (None, "caution")
    assert "next larger k" in lucky.reason


def test_a_named_k_that_is_of_no_use_says_so() -> None:
    choice = choose([_point(3, "bad", 0.5), _point(40, "good", use="bad")])
    assert choice.point is not None
    assert "Of use." in choice.reason
    assert "not fit for use" in choice.next
    assert "--k 40" in choice.next


@pytest.mark.slow
def test_a_failed_gate_fails_the_release() -> None:
    found = explore(people(300), rounds=["quick"], gates={"max_membership": 0.0}, **SMALL)
    releases = [point for point in found.points if point.spec.is_release]
    worst = [point for point in releases if point.attacks["membership"]["risk"] > 0]
    assert worst
    assert all(point.level == "bad" for point in worst)
    assert not any(point.gates for point in found.points if not point.spec.is_release)


def test_as_useful_and_as_risky_as_which_share() -> None:
    references = [
        _point(None, "bad", share, utility=use, spec=Spec("whole", "subsample", share=share))
        for share, use in ((0.01, 0.5), (0.1, 0.7), (0.4, 0.6))
    ]
    copy = _point(None, "bad", 1.0, utility=0.9, spec=Spec("whole", "copy"))
    points = [*references, copy]
    halfway = scaled(_point(5, "good", 0.055, utility=0.8), points)
    assert halfway.risky == pytest.approx(np.sqrt(0.01 * 0.1))  # on a logarithmic scale
    assert halfway.useful == pytest.approx(np.sqrt(0.4 * 1.0))
    below = scaled(_point(5, "good", 0.0, utility=0.2), points)
    assert below.risky == below.useful == pytest.approx(0.01)
    assert scaled(_point(5, "good"), []) == (None, None)


# The page, in a real browser.


@pytest.fixture(scope="module")
def browser() -> Any:
    with chromium() as opened:
        yield opened


@pytest.mark.slow
def test_a_click_on_a_release_leads_to_its_attacks(
    found: Exploration, browser: Browser, tmp_path: Path
) -> None:
    page = tmp_path / "explore.html"
    page.write_text(found.html())
    opened = Opened(browser, page)
    marks = opened.page.query_selector_all(".chart path[aria-label*='#point-']")
    assert len(marks) >= 4  # the releases; the one that is named, if one is, has a ring too
    marks[0].dispatch_event("click")
    opened.page.wait_for_function("location.hash.startsWith('#point-')")
    there = opened.page.evaluate("document.querySelector(location.hash) !== null")
    assert there
    assert opened.said == []
