"""A retailer's way: mine the till, choose what is secret, look at the price, hide."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tulle import Rule, RuleHider, association_rules, read_rules
from tulle.cli import tulle
from tulle.errors import DataError, ParameterError

LIMITS = ("--min-support", "5%", "--min-confidence", "50%")
COLUMNS = ("--basket", "receipt", "--item", "article")


def run(*arguments: object) -> str:
    done = CliRunner().invoke(tulle, [*map(str, arguments)])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def audited(source: Path, release: Path) -> dict:
    """What an audit prints; lines of a till are found again, so its verdict ends it with 1."""
    words = ["audit", str(source), str(release), "--json", "--attempts", "20"]
    return json.loads(CliRunner().invoke(tulle, words).stdout)


@pytest.fixture
def till(tmp_path: Path) -> Path:
    """Writes receipts, on a third of which bread, milk and red wine are together."""
    rng = np.random.default_rng(0)
    names = ["bread", "milk", "beer", "wine, red", "cheese"]
    rows = []
    for receipt in range(400):
        held = set(rng.choice(names, rng.integers(1, 4)).tolist())
        if receipt % 3 == 0:
            held |= {"bread", "milk", "wine, red"}
        rows += [(1000 + receipt, item, float(rng.integers(1, 900)) / 100) for item in sorted(held)]
    table = pl.DataFrame(rows, schema=["receipt", "article", "price"], orient="row")
    table.write_csv(tmp_path / "till.csv")
    return tmp_path / "till.csv"


@pytest.mark.slow
def test_from_the_till_to_a_release(till: Path, tmp_path: Path) -> None:
    mined, secret, out = tmp_path / "mined.csv", tmp_path / "secret.csv", tmp_path / "shared.csv"
    run("mine", till, *COLUMNS, *LIMITS, "-o", mined)
    lines = mined.read_text().splitlines()
    chosen = [line for line in lines if line.startswith('"bread, milk",')]
    assert chosen
    secret.write_text("\n".join([lines[0], *chosen]) + "\n")
    hiding = ("hide", till, *COLUMNS, *LIMITS, "--rules", secret, "--seed", 1, "--json")
    costs = json.loads(run(*hiding, "--preview"))["costs"]
    assert [row["rule"] for row in costs] == ['bread, milk -> "wine, red"', "all of them"]
    assert costs[0]["baskets_touched"] > 0
    assert not out.exists()
    told = json.loads(run(*hiding, "-o", out, "--keep", "price"))
    assert told["rules_hidden"] == 1
    assert any("kept columns" in note for note in told["notes"])
    before, after = pl.read_csv(till), pl.read_csv(out)
    assert after.columns == ["receipt", "article", "price"]
    assert after.height < before.height
    assert after.join(before, on=after.columns, how="anti").is_empty()  # rows go whole
    refused = CliRunner().invoke(tulle, ["audit", str(till), str(out)])
    assert isinstance(refused.exception, ParameterError)
    assert "tulle hide --report" in str(refused.exception)
    run(*hiding, "-o", tmp_path / "two.csv")
    assert pl.read_csv(tmp_path / "two.csv").columns == ["receipt", "article"]


@pytest.mark.slow
def test_other_columns_of_a_wide_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    wide = pl.DataFrame({name: rng.integers(0, 2, 200) for name in "abc"})
    wide = wide.with_columns(day=pl.Series([f"2026-01-{1 + n % 28:02}" for n in range(200)]))
    wide.write_csv(tmp_path / "w.csv")
    (tmp_path / "s.txt").write_text("a => b\n")
    asked = ("hide", tmp_path / "w.csv", "--rules", tmp_path / "s.txt", *LIMITS, "--seed", 0)
    run(*asked, "-o", tmp_path / "o.csv", "--keep", "all")
    after = pl.read_csv(tmp_path / "o.csv")
    assert after["day"].to_list() == wide["day"].to_list()
    assert after["c"].to_list() == wide["c"].to_list()
    wrong = CliRunner().invoke(tulle, [*map(str, asked), "-o", "x.csv", "--keep", "dya"])
    assert isinstance(wrong.exception, ParameterError)
    assert "'day'" in str(wrong.exception)
    blocked = [
        *map(str, asked),
        "-o",
        str(tmp_path / "b.csv"),
        "--method",
        "blocking",
        "--interval",
        "lower",
    ]
    assert CliRunner().invoke(tulle, [*blocked, "--keep", "day"]).exit_code == 0


def test_kept_columns_of_a_long_table_need_rows_that_stay(till: Path, tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text('bread, milk => "wine, red"\n')
    asked = ["hide", till, *COLUMNS, *LIMITS, "--rules", tmp_path / "s.txt", "--keep", "price"]
    asked += ["--method", "blocking", "--interval", "lower", "-o", tmp_path / "b.csv"]
    refused = CliRunner().invoke(tulle, [*map(str, asked)])
    assert isinstance(refused.exception, DataError)
    assert not (tmp_path / "b.csv").exists()


@pytest.mark.slow
def test_rules_in_the_words_of_others(tmp_path: Path) -> None:
    import pandas as pd

    lists = [["bread", "milk", "wine, red"]] * 6 + [["bread"], ["milk"]]
    frame = pd.DataFrame(
        {
            "antecedents": [frozenset({"bread", "milk"})],
            "consequents": [frozenset({"wine, red"})],
            "support": [0.75],
        }
    )
    frame.to_csv(tmp_path / "mlxtend.csv")
    ours = association_rules(lists, min_support=0.5, min_confidence=0.7)
    ours.head(1).write_parquet(tmp_path / "ours.parquet")
    assert read_rules(tmp_path / "mlxtend.csv").rules == [Rule(["bread", "milk"], ["wine, red"])]
    assert len(read_rules(tmp_path / "ours.parquet").rules) == 1
    for rules in (frame, 'bread, milk => "wine, red"', tmp_path / "mlxtend.csv"):
        hider = RuleHider(rules, min_support=3, min_confidence=0.9, margin=0, random_state=0)
        hider.fit_transform(lists)
        assert hider.report_[0]["rule"] == 'bread, milk -> "wine, red"'
    (tmp_path / "empty.csv").write_text("antecedent,consequent\n")
    with pytest.raises((DataError, ParameterError)):
        read_rules(tmp_path / "empty.csv")


def test_a_forgotten_threshold_is_named_as_the_user_does(till: Path, tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("bread => milk\n")
    asked = ["hide", str(till), *COLUMNS, "--rules", str(tmp_path / "s.txt"), "-o", "x.csv"]
    refused = CliRunner().invoke(tulle, asked)
    assert "--min-support" in str(refused.exception)
    assert CliRunner().invoke(tulle, asked[:-2]).exit_code == 2  # no output
