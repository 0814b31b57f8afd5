"""Two hospitals and a miner: summaries, agreement, codes, union, a tree, and what goes wrong."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tulle.cli import tulle
from tulle.errors import KeyMaterialError, ParameterError

pytestmark = pytest.mark.slow


def run(*arguments: object) -> dict:
    done = CliRunner().invoke(tulle, ["sites", *map(str, arguments), "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


def patients(seed: int, sexes: str) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    born = [
        datetime.date(1930, 1, 1) + datetime.timedelta(int(d)) for d in rng.integers(0, 30_000, 120)
    ]
    old = [day < datetime.date(1965, 3, 7) for day in born]
    return pl.DataFrame(
        {
            "born": born,
            "sex": rng.choice(list(sexes), 120),
            "illness": rng.choice(["Flu", "Mumps", "Gastritis"], 120),
            "stroke": ["yes" if sick else "no" for sick in old],
        }
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    patients(0, "mw").write_csv("north.csv")
    patients(1, "MW").write_csv("south.csv")
    return tmp_path


def test_from_summaries_to_a_tree_in_their_own_words(folder: Path) -> None:
    from sklearn.tree import DecisionTreeClassifier, export_text

    for site in ("north", "south"):
        run("summary", f"{site}.csv", "-o", f"{site}.json")
        assert "Flu" not in Path(f"{site}.json").read_text()
    agreed = run("agree", "north.json", "south.json", "-o", "agreed", "--key-file", "key")
    assert [note for note in agreed["notes"] if "'sex'" in note and "two codes" in note]
    assert not [note for note in agreed["notes"] if "'illness'" in note]
    key = ("--agreement", "agreed", "--key-file", "key")
    for site in ("north", "south"):
        run("encode", f"{site}.csv", "-o", f"{site}.parquet", *key)
    joined = run("join", "north.parquet", "south.parquet", "-o", "union.parquet")
    rows = {row["column"]: row for row in joined["aliases"]}
    assert (rows["sex"]["aliases"], rows["sex"]["at_one_site_only"]) == (4, 4)
    assert rows["sex"]["records_with_these"] == 240
    assert rows["illness"]["at_one_site_only"] == 0
    assert [note for note in joined["notes"] if "'sex'" in note]

    union = pl.read_parquet("union.parquet")
    tree = DecisionTreeClassifier(max_depth=1, random_state=0)
    tree.fit(union.select("born").to_numpy(), union["stroke"].to_numpy())
    for decimals, rough in ((2, True), (10, False)):
        Path("tree.txt").write_text(export_text(tree, feature_names=["born"], decimals=decimals))
        done = run("decode", "tree.txt", "-o", f"tree{decimals}.txt", *key, "--values", "north.csv")
        assert any("'born'" in note and "days" in note for note in done["notes"]) == rough
    assert "born <= 196" in Path("tree10.txt").read_text()


def test_the_union_is_mined_by_the_project_and_read_by_the_sites(folder: Path) -> None:
    """Paper 004 from end to end: agree, encode, join, mine, decode."""
    from tulle._commands.mine import mine

    plain = pl.concat([patients(0, "mw"), patients(1, "MW")])
    plain.write_csv("plain.csv")
    for site in ("north", "south"):
        run("summary", f"{site}.csv", "-o", f"{site}.json")
    run("agree", "north.json", "south.json", "-o", "agreed", "--key-file", "key")
    key = ("--agreement", "agreed", "--key-file", "key")
    for site in ("north", "south"):
        run("encode", f"{site}.csv", "-o", f"{site}.parquet", *key)
    run("join", "north.parquet", "south.parquet", "-o", "union.parquet")
    asked = {"min_support": "5%", "min_confidence": "50%"}
    found = mine("union.parquet", **asked, output="rules.csv")
    assert found.summary["baskets"] == 240
    assert found.summary["average_length"] == 4
    own = ("--values", "north.csv", "--values", "south.csv")
    run("decode", "rules.csv", "--kind", "rules", "-o", "rules.plain.csv", *key, *own)
    mine("plain.csv", **asked, attributes=["all"], output="direct.csv")

    def rows(name: str) -> set[tuple[frozenset[str], frozenset[str], int]]:
        sides = pl.read_csv(name).select("antecedent", "consequent", "count").rows()
        return {(frozenset(a.split(", ")), frozenset(b.split(", ")), n) for a, b, n in sides}

    assert rows("rules.plain.csv") == rows("direct.csv")
    assert rows("direct.csv")


def test_values_of_one_site_that_differ_only_in_spacing(folder: Path) -> None:
    table = patients(0, "mw").with_columns(
        illness=pl.Series(["Flu ", "flu", "Flu", *["Mumps"] * 117])
    )
    table.write_csv("odd.csv")
    done = run("summary", "odd.csv", "-o", "odd.json")
    assert [note for note in done["notes"] if "'illness'" in note and "2 values" in note]


def test_a_mapping_table_is_collected_without_showing_a_value(folder: Path) -> None:
    """Paper 004's Table 1: numbers for all categories, from the files of the sites themselves."""
    extra = patients(1, "mw").with_columns(illness=pl.Series(["Croup", *["Flu"] * 119]))
    extra.write_csv("south.csv")
    for site in ("north", "south"):
        run("summary", f"{site}.csv", "-o", f"{site}.json")
    run("agree", "north.json", "south.json", "-o", "agreed", "--key-file", "key")
    key = ("--key-file", "key")
    run(
        "encode", "south.csv", "-o", "first.parquet", "-a", "agreed", *key,
        "--vocabulary", "south.words",
    )  # fmt: skip
    assert b"Croup" not in Path("south.words").read_bytes()
    asked = ("--list", "illness", "--values", "north.csv", "--values", "south.words")
    done = run("rotate", "agreed", "-o", "second", *key, *asked)
    assert done["mapping_tables"] == [{"column": "illness", "categories": 4}]
    assert "Croup" not in json.dumps(done)
    seen = set()
    for site in ("north", "south"):
        run("encode", f"{site}.csv", "-o", f"{site}.parquet", "-a", "second", *key)
        seen |= set(pl.read_parquet(f"{site}.parquet")["illness"])
    assert seen == {f"illness_{number}" for number in (1, 2, 3, 4)}
    wrong = CliRunner().invoke(tulle, ["sites", "rotate", "agreed", *key, "--list", "illness"])
    assert isinstance(wrong.exception, ParameterError)


def test_an_agreement_without_a_terminal_names_the_ways(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TULLE_PASSPHRASE", raising=False)
    run("summary", "north.csv", "-o", "north.json")
    asked = ["sites", "agree", "north.json", "-o", "agreed"]
    refused = CliRunner().invoke(tulle, asked)
    assert isinstance(refused.exception, KeyMaterialError)
    assert "TULLE_PASSPHRASE" in str(refused.exception)
    assert "--key-file" in str(refused.exception)
    monkeypatch.setenv("TULLE_PASSPHRASE", "a long passphrase")
    run("agree", "north.json", "-o", "agreed")
