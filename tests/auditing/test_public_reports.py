"""The privacy contract over public reports: no cell of the original, no aggregate below k."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import polars as pl
import pytest

from tulle import audit
from tulle.auditing import gate_rows
from tulle.auditing._measures import associations
from tulle.auditing._pictures import correlations, density, histogram, notes_section
from tulle.auditing._tables import align
from tulle.errors import PrivacyError

K = 15


@pytest.fixture(scope="module")
def tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    """People with numbers that nobody else has and names that only a few share."""
    rng = np.random.default_rng(0)
    common = rng.choice(["red", "green"], 400)
    rare = [f"secret-{i}" if i % 40 == 0 else word for i, word in enumerate(common)]
    original = pl.DataFrame(
        {
            "height": rng.normal(170, 10, 400).round(6),
            "wealth": np.exp(rng.normal(10, 2, 400)).round(4),
            "colour": rare,
            "shoe": rng.integers(30, 50, 400),
        }
    )
    release = pl.DataFrame(
        {
            "height": rng.normal(170, 10, 380).round(1),
            "wealth": np.exp(rng.normal(10, 2, 380)).round(0),
            "colour": rng.choice(["red", "green"], 380),
            "shoe": rng.integers(32, 48, 380),
        }
    )
    return original, release


@pytest.fixture(scope="module")
def public(tables: tuple) -> dict[str, str]:
    found = audit(tables[0], tables[1], random_state=1, k=K, target="colour")
    html = found.html("public")
    forms = {"json": found.json("public"), "markdown": found.markdown("public")}
    # the bundle of the chart library holds no data, but every short number
    return forms | {"html": html.split("<script>")[0] + html.split("</script>")[-1]}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["html", "json", "markdown"])
def test_no_cell_of_the_original_is_in_a_public_report(
    form: str, tables: tuple, public: dict
) -> None:
    text = public[form]
    assert "secret-" not in text
    numbers = set(re.findall(r"\d+\.\d+|\d{4,}", text))
    for name in ("height", "wealth"):
        assert not numbers & {f"{value}" for value in tables[0][name].to_list()}


@pytest.mark.slow
def test_no_public_aggregate_holds_fewer_than_k(tables: tuple, public: dict) -> None:
    result = json.loads(public["json"])
    original, release = tables
    seen = 0
    for section in result["sections"]:
        for block in section["blocks"]:
            for row in block["rows"] if block["type"] == "chart" else []:
                if block["chart"] == "histogram" and row["original"] is not None:
                    assert round(row["original"] * original.height) >= K
                    seen += 1
                if block["chart"] == "density":
                    size = original.height if row["of"] == "original" else release.height
                    assert round(row["share"] * size) >= K
                assert row.get("count") is None
    assert seen > 10
    tried = audit(original, release, random_state=1, k=K, target="colour").to_dict()["attacks"]
    for name, attack in result["attacks"].items():
        assert not {"attempts", "successes", "details"} & set(attack)
        steps = attack["rate"] * tried[name]["attempts"] / K
        assert steps == pytest.approx(round(steps), abs=0.01)
    assert "audit seed" not in result["provenance"]


def _section(edition: dict[str, Any], name: str) -> dict[str, Any]:
    return next(section for section in edition["sections"] if section["id"] == name)


@pytest.mark.slow
def test_the_owner_sees_what_the_public_does_not(tables: tuple) -> None:
    found = audit(*tables, random_state=1, k=K)
    owner, public = json.loads(found.json()), json.loads(found.json("public"))
    assert [s["title"] for s in owner["sections"]] == [
        "Fitness for use",
        "Columns",
        "Structure",
        "Ranges and missing values",
    ]
    shown = [s["title"] for s in public["sections"]]
    assert shown == ["Fitness for use", "Columns", "Structure"]
    assert owner["attacks"]["linkage"]["attempts"] == 400


def test_pictures_are_aggregates_from_the_start(tables: tuple) -> None:
    aligned = align(*tables, None, None)
    for name in aligned.columns:
        rows = histogram(aligned, name, K)
        assert all(row["original"] is None or row["count"] >= K for row in rows)
        assert sum(row["release"] for row in rows) == pytest.approx(1)
    assert all(row["count"] >= K for row in density(aligned, K))
    assert len(correlations(associations(aligned))) == 16


def test_a_small_table_has_a_picture_of_its_axes_too() -> None:
    table = pl.DataFrame(np.random.default_rng(0).normal(size=(1500, 3)))
    cells = density(align(table, table, None, None), K)
    assert {row["of"] for row in cells} == {"original", "release"}
    assert sum(row["share"] for row in cells if row["of"] == "original") > 0.7
    assert density(align(table, table, None, None), 4 * K) == []  # a few dots are no picture


def test_labels_come_from_the_release_and_dates_are_dates() -> None:
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 12, 31), eager=True)
    table = pl.DataFrame({"day": days, "x": np.arange(366) % 3, "flag": np.arange(366) % 2 == 0})
    aligned = align(table, table, None, None)
    labels = [row["label"] for row in histogram(aligned, "day", 2)]
    assert all(re.search(r"20(19|20|21)-\d\d-\d\d", label) for label in labels)
    assert [row["label"] for row in histogram(aligned, "x", 2)] == ["0", "1", "2"]
    assert {row["label"] for row in histogram(aligned, "flag", 2)} == {"true", "false"}


def test_empty_bars_between_others_stay_on_the_axis() -> None:
    values = np.repeat([1.5, 2.0, 95.0], 50)
    aligned = align(pl.DataFrame({"x": values}), pl.DataFrame({"x": values}), None, None)
    rows = histogram(aligned, "x", 10)
    assert [row["label"] for row in rows[:3]] == ["below 5", "5 to 10", "10 to 15"]
    assert [row["release"] for row in rows[1:-1]] == [0.0] * 17
    assert [row["original"] for row in rows[1:-1]] == [None] * 17
    assert rows[-1]["original"] == pytest.approx(1 / 3)  # nothing is hidden for their sake


@pytest.mark.slow
def test_rare_categories_are_not_named_even_if_the_release_shows_them() -> None:
    words = ["common"] * 200 + ["rare"] * 3
    table = pl.DataFrame({"word": words, "x": np.arange(203) % 7})
    found = audit(table, table, random_state=0, k=K)
    for text in (found.html("public"), found.json("public"), found.markdown("public")):
        assert "common" in text or text.startswith("# ")
        assert '"rare"' not in text
    labels = [row["label"] for row in histogram(align(table, table, None, None), "word", K)]
    assert labels == ["common", "(others)"]


@pytest.mark.slow
def test_a_small_control_is_rounded_by_its_own_number() -> None:
    rng = np.random.default_rng(2)
    people, control = rng.normal(size=(400, 3)), rng.normal(size=(25, 3))
    result = json.loads(audit(people, people, control, random_state=0, k=K).json("public"))
    for attack in result["attacks"].values():
        if attack["control"] is not None:
            steps = attack["control"] * 25 / K  # of the membership test: half of them
            assert attack["control"] in (0, 1) or steps == pytest.approx(round(steps), abs=0.01)


def test_a_released_record_of_its_own_is_not_told_either() -> None:
    rng = np.random.default_rng(3)
    children = [*rng.integers(0, 4, 395).tolist(), 9, 9, 10, 12, 13]
    pay = [*rng.normal(2000, 100, 398).tolist(), 777_777.0, 888_888.0]
    table = pl.DataFrame({"children": children, "pay": pay})
    found = audit(table, table, random_state=0, k=K, attempts=50)
    blocks = _section(json.loads(found.json("public")), "columns")["blocks"]
    charts = {block["title"]: block["rows"] for block in blocks if block["type"] == "chart"}
    counts = [row["label"] for row in charts["children: original and release"]]
    assert counts == ["0", "1", "2", "3 and more"]
    sums = [row["label"] for row in charts["pay: original and release"]]
    assert sums[0].startswith("below 1")
    assert sums[-1].startswith("2")  # and up: no edge is drawn for the sake of two
    for rows in charts.values():
        shares = [row["release"] for row in rows if row["release"]]
        assert min(shares) * 400 >= K - 0.5


def test_a_bar_of_a_few_originals_only_does_not_even_say_that_there_are_some() -> None:
    full = pl.DataFrame({"x": np.arange(200.0) / 7, "word": ["a", "b"] * 100})
    holes = full.with_columns(
        x=pl.when(pl.int_range(200) < 3).then(None).otherwise("x"),
        word=pl.when(pl.int_range(200) < 3).then(pl.lit("rare")).otherwise("word"),
    )
    aligned = align(holes, full, None, None)
    for name in ("x", "word"):
        rows = histogram(aligned, name, K)
        assert not {"(missing)", "(others)"} & {row["label"] for row in rows}
        # nor can it be had by subtraction
        assert sum(row["count"] or 0 for row in rows) <= 200 - K


def test_an_association_that_rests_on_a_few_people_is_for_the_owner() -> None:
    rng = np.random.default_rng(5)
    table = pl.DataFrame(
        {
            "age": rng.normal(40, 9, 300),
            "ill": np.arange(300) < 2,
            "wealth": np.where(np.arange(300) == 7, 1e9, rng.normal(1e4, 1e3, 300)),
        }
    )
    found = audit(table, table, random_state=0, k=K, attempts=50)
    editions = [json.loads(found.json(edition)) for edition in ("owner", "public")]
    rows = [
        {(row["first"], row["second"]): row["original"] for row in block["rows"]}
        for edition in editions
        for block in _section(edition, "structure")["blocks"]
        if block.get("chart") == "correlation"
    ]
    assert all(value is not None for value in rows[0].values())
    assert rows[1]["age", "age"] == 1
    assert {pair for pair, value in rows[1].items() if value is None} == {
        pair for pair in rows[1] if {"ill", "wealth"} & set(pair)
    }


@pytest.mark.slow
def test_a_distance_does_not_count_the_few_whom_the_release_left_out() -> None:
    rng = np.random.default_rng(8)
    release = pl.DataFrame(
        {"word": rng.choice(["a", "b"], 400), "ill": [False] * 400, "x": rng.normal(size=400)}
    )
    first = pl.int_range(400) == 0
    original = release.with_columns(
        word=pl.when(first).then(pl.lit("rare")).otherwise("word"),
        ill=first,
        x=pl.when(first).then(None).otherwise("x"),
    )
    found = audit(original, release, random_state=0, k=K, attempts=50)
    owner, public = (json.loads(found.json(edition)) for edition in ("owner", "public"))
    tables = [_section(e, "columns")["blocks"][0] for e in (owner, public)]
    rows = [{r[0]: r[2] for r in table["rows"]} for table in tables]
    assert [rows[0]["word"], rows[0]["ill"]] == pytest.approx([0.0025, 0.0025])
    assert rows[1] == {"word": 0, "ill": None, "x": 0}  # of x too one is missing
    assert {"marginal_distance", "correlation_difference"} <= set(owner["metrics"])
    assert not {"marginal_distance", "correlation_difference"} & set(public["metrics"])
    for text in (found.markdown("public"), found.html("public").split("<script>")[0]):
        assert "0.0025" not in text


@pytest.mark.slow
def test_a_figure_about_fewer_than_k_people_is_for_the_owner() -> None:
    rng = np.random.default_rng(6)
    people, release = rng.normal(size=(40, 3)), rng.normal(size=(40, 3))
    few = audit(people, release, random_state=0, k=K, target="x0", attempts=5)
    shown = json.loads(few.json("public"))
    # 5 people were attacked, 12 tested the models
    for name in ("accuracy_original", "closest_original", "nearest_record_loss", "interval_width"):
        assert name in few.to_dict()["metrics"]
        assert name not in shown["metrics"]
    assert set(shown["attacks"]) <= {"exact_copies", "singling_out"}
    assert shown["verdict"]["privacy"]["level"] == few.verdict["privacy"]["level"]
    with pytest.raises(PrivacyError, match="has 3"):
        audit(people, release, control=rng.normal(size=(3, 3)), k=K, attempts=5).json("public")


def test_a_gate_in_public_is_as_coarse_as_its_attack() -> None:
    rng = np.random.default_rng(7)
    people = rng.normal(size=(60, 3))
    release = np.vstack([people[:1], rng.normal(size=(59, 3))])
    found = audit(people, release, random_state=0, k=K)
    limits = {"max_copies": 0.001, "max_linkage": 0.9, "max_singling_out": 0.5}
    gated = found.extended(gates=gate_rows(found.result, limits))
    assert gated.to_dict()["gates"][0]["value"] == pytest.approx(1 / 60)
    shown = json.loads(gated.json("public"))
    assert shown["gates"][0] == {"name": "max_copies", "limit": 0.001, "value": None} | {
        "holds": False
    }
    assert shown["gates"][1]["value"] * 60 / K == pytest.approx(
        round(shown["gates"][1]["value"] * 60 / K), abs=0.01
    )
    told = shown["verdict"]["privacy"]["details"][0]
    assert told.endswith("max_copies; the limit is 0.001.")
    assert "1.6" not in gated.markdown("public")


@pytest.mark.slow
def test_what_was_noticed_while_a_release_was_made_is_for_the_owner(tables: tuple) -> None:
    assert notes_section([]) == []
    note = "class 'secret-40': 1 groups are small"
    found = audit(*tables, random_state=1, k=K).extended(sections=notes_section([note]))
    assert note in found.markdown()
    for text in (found.html("public"), found.json("public"), found.markdown("public")):
        assert "secret-40" not in text
