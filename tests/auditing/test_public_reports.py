"""The privacy contract over public reports: no cell of the original, no aggregate below k."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest

from tulle import audit
from tulle.auditing.alignment import align
from tulle.auditing.pictures import correlations, density, histogram
from tulle.auditing.sections import notes_section

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


@pytest.mark.parametrize("form", ["html", "json", "markdown"])
def test_no_cell_of_the_original_is_in_a_public_report(
    form: str, tables: tuple, public: dict
) -> None:
    text = public[form]
    assert "secret-" not in text
    numbers = set(re.findall(r"\d+\.\d+|\d{4,}", text))
    for name in ("height", "wealth"):
        assert not numbers & {f"{value}" for value in tables[0][name].to_list()}


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


def test_the_owner_sees_what_the_public_does_not(tables: tuple) -> None:
    found = audit(*tables, random_state=1, k=K)
    owner, public = json.loads(found.json()), json.loads(found.json("public"))
    assert [s["title"] for s in owner["sections"]] == [
        "Columns",
        "Structure",
        "Ranges and missing values",
    ]
    assert [s["title"] for s in public["sections"]] == ["Columns", "Structure"]
    assert owner["attacks"]["linkage"]["attempts"] == 400


def test_pictures_are_aggregates_from_the_start(tables: tuple) -> None:
    aligned = align(*tables, None, None)
    for name in aligned.columns:
        rows = histogram(aligned, name, K)
        assert all(row["original"] is None or row["count"] >= K for row in rows)
        assert sum(row["release"] for row in rows) == pytest.approx(1)
    assert all(row["count"] >= K for row in density(aligned, K))
    assert len(correlations(aligned)) == 16


def test_labels_come_from_the_release_and_dates_are_dates() -> None:
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 12, 31), eager=True)
    table = pl.DataFrame({"day": days, "x": np.arange(366) % 3, "flag": np.arange(366) % 2 == 0})
    aligned = align(table, table, None, None)
    labels = [row["label"] for row in histogram(aligned, "day", 2)]
    assert all(re.search(r"20(19|20|21)-\d\d-\d\d", label) for label in labels)
    assert [row["label"] for row in histogram(aligned, "x", 2)] == ["0", "1", "2"]
    assert {row["label"] for row in histogram(aligned, "flag", 2)} == {"true", "false"}


def test_empty_bars_between_others_stay_on_the_axis() -> None:
    values = np.repeat([1.0, 2.0, 95.0], 50)
    aligned = align(pl.DataFrame({"x": values}), pl.DataFrame({"x": values}), None, None)
    rows = histogram(aligned, "x", 10)
    assert [row["label"] for row in rows[:3]] == ["below 5", "5 to 10", "10 to 15"]
    assert [row["release"] for row in rows[1:-1]] == [0.0] * 17
    assert [row["original"] for row in rows[1:-1]] == [None] * 17
    assert rows[-1]["original"] == pytest.approx(1 / 3)  # nothing is hidden for their sake


def test_rare_categories_are_not_named_even_if_the_release_shows_them() -> None:
    words = ["common"] * 200 + ["rare"] * 3
    table = pl.DataFrame({"word": words, "x": np.arange(203) % 7})
    found = audit(table, table, random_state=0, k=K)
    for text in (found.html("public"), found.json("public"), found.markdown("public")):
        assert "common" in text or text.startswith("# ")
        assert '"rare"' not in text
    labels = [row["label"] for row in histogram(align(table, table, None, None), "word", K)]
    assert labels == ["common", "(others)"]


def test_a_small_control_is_rounded_by_its_own_number() -> None:
    rng = np.random.default_rng(2)
    people, control = rng.normal(size=(400, 3)), rng.normal(size=(25, 3))
    result = json.loads(audit(people, people, control, random_state=0, k=K).json("public"))
    for attack in result["attacks"].values():
        if attack["control"] is not None:
            steps = attack["control"] * 25 / K  # of the membership test: half of them
            assert attack["control"] in (0, 1) or steps == pytest.approx(round(steps), abs=0.01)


def test_what_was_noticed_while_a_release_was_made_is_for_the_owner(tables: tuple) -> None:
    assert notes_section([]) == []
    note = "class 'secret-40': 1 groups are small"
    found = audit(*tables, random_state=1, k=K).extended(sections=notes_section([note]))
    assert note in found.markdown()
    for text in (found.html("public"), found.json("public"), found.markdown("public")):
        assert "secret-40" not in text
