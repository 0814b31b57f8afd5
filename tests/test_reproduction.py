"""The papers' numbers: the page is what the measurements say, and the worked examples come out."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reproduction import classes, coding, levels, sketching
from benchmarks.reproduction.__main__ import EXPERIMENTS
from benchmarks.reproduction.figures import FIGURES
from benchmarks.reproduction.page import (
    PAGE,
    claim_verdict,
    claims,
    exact_by_kind,
    measurements,
    numbers,
    page,
    printed,
    verdict,
)

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
ITEMS = {item["experiment"]: item for item in printed()["item"]}


@pytest.mark.parametrize(
    "text, ours, expected",
    [
        ("60", 60, "exact"),
        ("60", 61, "partly"),
        ("60", 20, "not"),
        ("5.99", 5.999, "exact"),  # cut off after the last digit
        ("64.31", 64.3169, "exact"),
        ("2.13", 2.125, "exact"),  # rounded
        ("3.80", 3.7917, "partly"),  # rounded and cut off 3.79
        ("1.4731", [1.4731, 0.01], "within error"),  # a mean over splits is not exact by chance
        ("0.9556", [0.951, 0.004], "within error"),
        ("0.9556", [0.5, 0.4], "not"),  # an error that allows everything says nothing
        ("10", None, "no data"),
    ],
)
def test_verdicts_on_numbers(text: str, ours: object, expected: str) -> None:
    assert verdict(text, ours) == expected


def test_every_item_says_how_many_runs_are_behind_it_and_by_which_command() -> None:
    for item in printed()["item"]:
        assert item["runs"], item["title"]
        assert all(command.startswith("tulle ") for command in item["commands"]), item["title"]


def test_verdicts_on_bounds_misprints_and_claims() -> None:
    assert verdict("0.95", 0.96, column="at least") == "exact"
    assert verdict("0.5", 0.55, column="below") == "not"
    assert verdict("5 to 10", 7.0, column="between") == "exact"
    assert verdict("190", 100, misprint=True) == "misprint"
    assert claim_verdict(7, 7) == "shape"
    assert claim_verdict(5, 7) == "partly"
    assert claim_verdict(5, 7, "most") == "shape"
    assert claim_verdict(1, 7) == "not"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, experiment",
    [
        ("levels_worked", levels.worked),
        ("classes_worked", classes.worked),
        ("sites_table3", coding.table3),
        ("sites_boxes", coding.boxes),
        ("sites_breaches", coding.breaches),
        ("sketches_equations", sketching.equations),
    ],
)
def test_worked_examples_come_out(name: str, experiment: object) -> None:
    found = {name: experiment(True)}  # type: ignore[operator]
    said = [row[-1] for row in numbers(ITEMS[name], found)]
    good = ("exact", "within error", "misprint")
    assert sum(one in good for one in said) >= len(said) - 3  # three values of Table 3 are near
    assert "not" not in said


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_the_page_says_how_many_exact_numbers_an_algorithm_produced() -> None:
    told, measured = printed(), measurements()
    counts = exact_by_kind(told, measured)
    said = [row[-1] for item in told["item"] for row in numbers(item, measured)]
    assert sum(c["exact"] + c["bounds kept"] for c in counts.values()) == said.count("exact")
    assert sum(c["numbers"] for c in counts.values()) == len(said) - said.count("no data")
    own = counts["algorithm"]["exact"]
    assert f"an algorithm had to produce {own} from data**" in page()
    shown = f"{len(said) - said.count('no data')} of their numbers next to ours"
    assert f"{shown}, {said.count('exact')} of them exact, {own} of these" in README


def test_claims_about_splits_are_counted_by_splits() -> None:
    run = {"rule end": 45, "brute end": 40, "rule seconds": 1.0, "brute seconds": 1.0}
    lucky = [{"data": "Iris", **run}, *({"data": "Iris", **run, "rule end": 10},) * 3]
    found = classes._table2_claims(lucky, {"Iris": 40})
    assert found["near the GCD"]["holds"] == pytest.approx(0.25, abs=0.06)
    assert found["same size"]["holds"] == pytest.approx(0.25, abs=0.06)


def test_what_our_copy_garbles_is_said() -> None:
    told = page()
    for item in printed()["item"]:
        for row, reads in item.get("repaired", {}).items():
            assert row in item["printed"]
            assert f"{row}: our copy of the paper reads {reads}" in told


def test_every_experiment_was_measured_and_drawn() -> None:
    measured = measurements()
    assert set(measured) == set(EXPERIMENTS) == set(ITEMS)
    assert [name for name in FIGURES if not (RESULTS / f"{name}.svg").exists()] == []


def test_most_of_the_printed_numbers_stand_next_to_ours() -> None:
    told, measured = printed(), measurements()
    said = [row[-1] for item in told["item"] for row in numbers(item, measured)]
    assert sum(one != "no data" for one in said) >= 150
    judged = [row for item in told["item"] for row in claims(item, measured)]
    assert len(judged) == sum(len(item.get("claim", [])) for item in told["item"])
    named = {key for item in told["item"] for key in item.get("misprints", {}).values()}
    assert named <= set(told["misprint"])
