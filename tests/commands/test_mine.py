from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tests.rules.test_best import shop
from tulle._commands import _baskets
from tulle._commands import mine as command
from tulle._commands._options import resolve
from tulle._commands.mine import mine
from tulle.cli import tulle
from tulle.errors import ParameterError
from tulle.rules import association_rules


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "baskets.dat"
    path.write_text("".join(" ".join(map(str, basket)) + "\n" for basket in shop(0)))
    return path


def test_rules_are_printed_and_saved(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "rules.csv"
    run = CliRunner().invoke(
        tulle,
        ["mine", str(source), "--min-support", "3%", "--min-confidence", "50%", "-o", str(output)],
    )
    assert run.exit_code == 0, run.output
    expected = association_rules(shop(0), min_support=0.03, min_confidence=0.5)
    assert pl.read_csv(output).height == expected.height
    assert f"{expected.height}" in run.output
    assert not (tmp_path / "rules.csv.manifest.json").exists()


@pytest.mark.parametrize("kind", ["all", "closed", "maximal"])
def test_itemsets_as_json(source: Path, kind: str) -> None:
    run = CliRunner().invoke(
        tulle, ["mine", str(source), "--min-support", "12", "--itemsets", kind, "--json"]
    )
    assert run.exit_code == 0, run.output
    assert json.loads(run.output)[f"itemsets_{kind}"] > 0


def test_tables_by_columns(tmp_path: Path) -> None:
    pairs = [(row, item, "x") for row, basket in enumerate(shop(0)) for item in basket]
    table = tmp_path / "sold.parquet"
    pl.DataFrame(pairs, schema=["till", "what", "other"], orient="row").write_parquet(table)
    output = tmp_path / "rules.parquet"
    found = mine(
        table, min_support=12, min_confidence=0.5, basket="till", item="what", output=output
    )
    expected = association_rules(shop(0), min_support=12, min_confidence=0.5)
    assert found.summary["rules"] == expected.height
    assert pl.read_parquet(output)["antecedent"].dtype == pl.List(pl.Int64)


def test_odd_names_are_written_as_in_rules(tmp_path: Path) -> None:
    from tulle import Rule

    table, output = tmp_path / "sold.csv", tmp_path / "rules.csv"
    rows = [(n, what) for n in range(3) for what in ("milk, whole", '3" nails', "tea")]
    pl.DataFrame(rows, schema=["till", "what"], orient="row").write_csv(table)
    mine(table, min_support=1, min_confidence=0.5, output=output)
    for row in pl.read_csv(output).to_dicts():
        rule = Rule(f"{row['antecedent']} -> {row['consequent']}")
        assert set(rule.items) <= {"milk, whole", '3" nails', "tea"}


def test_wrong_usage(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="--min-confidence"):
        mine(source, min_support=12)
    for ignored in ({"min_confidence": 0.5}, {"max_consequent": 1}):
        with pytest.raises(ParameterError):
            mine(source, min_support=12, itemsets="all", **ignored)
    with pytest.raises(ParameterError):
        mine(source, min_support=12, min_confidence=0.5, basket="a")
    with pytest.raises(ParameterError):
        mine(source, min_support=12, min_confidence=0.5, basket="a", item="b")
    with pytest.raises(ParameterError):
        mine(source, min_support=12, itemsets="all", output=f"sqlite:///{tmp_path}/a.db#t")
    with pytest.raises(ParameterError, match="--min-support"):
        mine(source, min_support="0", min_confidence=0.5, output=tmp_path / "x.csv")
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("form", ["lines", "pairs", "lists", "wide"])
@pytest.mark.parametrize("support", ["4%", "12"])
def test_a_file_larger_than_memory_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, support: str
) -> None:
    rng = np.random.default_rng(0)
    lists = [sorted(set((rng.zipf(1.6, 4) % 12).tolist())) for _ in range(300)]
    given: dict[str, Any] = {}
    if form == "lines":
        source = tmp_path / "baskets.dat"
        source.write_text("".join(" ".join(map(str, items)) + "\n" for items in lists))
    else:
        source = tmp_path / "baskets.parquet"
        words = [[f"item {item}" for item in items] for items in lists]
        frame = pl.DataFrame({"basket": range(300), "item": words})
        if form == "pairs":
            frame = frame.explode("item").sample(fraction=1, shuffle=True, seed=1)
            given = {"basket": "basket", "item": "item"}
        elif form == "lists":
            frame = frame.select("item")
        else:
            names = sorted({word for items in words for word in items})
            frame = pl.DataFrame({name: [int(name in items) for items in words] for name in names})
        frame.write_parquet(source)
    wanted = tmp_path / "whole.parquet"
    mine(source, output=wanted, min_support=support, min_confidence="30%", **given)
    monkeypatch.setattr(_baskets, "_BLOCK", 70)
    monkeypatch.setattr(_baskets, "_PAIRS", 200)
    monkeypatch.setattr(command, "_is_large", lambda *_: True)
    found = tmp_path / "blocks.parquet"
    done = mine(source, output=found, min_support=support, min_confidence="30%", **given)
    assert done.summary["baskets"] == 300
    assert done.summary["rules"] > 5
    assert _rules(found) == _rules(wanted)


def _rules(path: Path) -> set[tuple[frozenset[Any], frozenset[Any], int]]:
    return {
        (frozenset(row["antecedent"]), frozenset(row["consequent"]), row["count"])
        for row in pl.read_parquet(path).to_dicts()
    }


def test_the_size_of_a_file_decides(tmp_path: Path) -> None:
    source = tmp_path / "baskets.dat"
    source.write_text("1 2\n" * 100)
    options = resolve("mine", command.Mining(), None, {"memory": "100MB"})
    assert not command._is_large(source, options)
    with open(source, "r+b") as file:
        file.truncate(10**8)
    assert command._is_large(source, options)


def test_the_minimum_support_may_be_that_of_the_antecedent(source: Path) -> None:
    found = mine(source, min_support="10%", min_confidence="50%", support_of="antecedent")
    expected = association_rules(
        shop(0), min_support=0.1, min_confidence=0.5, support_of="antecedent"
    )
    plain = association_rules(shop(0), min_support=0.1, min_confidence=0.5)
    assert found.summary["rules"] == expected.height > plain.height
    with pytest.raises(ParameterError, match="--support-of"):
        mine(source, min_support="10%", itemsets="all", support_of="antecedent")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("sex,race,edu\nm,w,hi\nm,w,hi\nf,b,lo\nf,w,lo\nf,,lo\nm,b,hi\n")
    return path


def test_each_row_of_a_table_is_a_basket_of_attributes(people: Path) -> None:
    found = mine(people, min_support=2, min_confidence=0.9, attributes=["sex", "edu"])
    rules = {(row["antecedent"], row["consequent"]) for row in found.tables["the first"]}
    assert rules == {
        ("sex=m", "edu=hi"),
        ("edu=hi", "sex=m"),
        ("sex=f", "edu=lo"),
        ("edu=lo", "sex=f"),
    }
    every = mine(people, min_support=1, itemsets="all", attributes=["all"]).summary
    assert (every["shortest"], every["longest"]) == (2, 3), "a missing cell is no item"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_is_large", lambda *_: True)
        small = mine(people, min_support=1, itemsets="all", attributes=["all"])
    assert small.summary["itemsets_all"] == every["itemsets_all"]
    with pytest.raises(ParameterError, match="--attribute.*'sexx'.*sex"):
        mine(people, min_support=1, itemsets="all", attributes=["sexx"])
    with pytest.raises(ParameterError, match="--attribute"):
        mine(people, min_support=1, itemsets="all", attributes=["all"], basket="sex", item="edu")


def test_the_miners_of_paper_004(people: Path) -> None:
    asked = {"min_support": 2, "attributes": ["all"]}
    tertius = mine(people, **asked, algorithm="tertius", best=1)
    assert {row["confirmation"] for row in tertius.tables["the first"]} == {1.0}
    assert len(tertius.tables["the first"]) == 4, "equal values are all in"
    accurate = mine(people, **asked, algorithm="predictive-apriori", best=3, seed=1)
    values = [row["expected_accuracy"] for row in accurate.tables["the first"]]
    assert len(values) == 3
    assert values == sorted(values, reverse=True)
    assert all(0.5 < value < 1 for value in values)
    assert mine(people, **asked, min_confidence=0.1, best=2).summary["rules"] == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_is_large", lambda *_: True)
        with pytest.raises(ParameterError, match="--algorithm needs all baskets in memory"):
            mine(people, **asked, algorithm="tertius")
