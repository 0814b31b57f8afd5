"""``tulle hide --share rules``: the other rules leave, with a manifest that names no secret."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from tulle._commands.hide import hide
from tulle.cli import tulle
from tulle.errors import ParameterError


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    baskets = tmp_path / "baskets.dat"
    baskets.write_text("1 2 3\n" * 40 + "1 2\n" * 20 + "2 4\n" * 40)
    secret = tmp_path / "secret.txt"
    secret.write_text("1 -> 3\n")
    return baskets, secret


def test_rules_leave_and_the_secret_stays(files: tuple[Path, Path], tmp_path: Path) -> None:
    baskets, secret = files
    output, report = tmp_path / "rules.csv", tmp_path / "report.json"
    made = hide(
        baskets, output, rules=secret, share="rules", min_support="10%", min_confidence="50%",
        report=report,
    )  # fmt: skip
    shared = pl.read_csv(
        output, schema_overrides={"antecedent": pl.String, "consequent": pl.String}
    )
    wholes = [
        {*left.split(", "), *right.split(", ")}
        for left, right in shared.select("antecedent", "consequent").rows()
    ]
    assert wholes
    assert not any({"1", "3"} <= whole for whole in wholes)
    assert made.summary["rules_shared"] == len(wholes)
    text = (tmp_path / "rules.csv.manifest.json").read_text()
    assert "1 -> 3" not in text
    manifest = json.loads(text)
    assert all(manifest["verified"].values())
    assert manifest["counts"]["recovery_factor"] == 0
    told = json.loads(report.read_text())["verdict"]
    assert told["privacy"]["level"] == "good"  # every secret rule was tried: no chance is left
    assert "--holdout" not in told["privacy"]["next"]
    assert told["use"]["level"] != "undecided"


def test_the_rules_file_of_baskets_serves_here_too(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    baskets, secret = files
    asked = {"rules": secret, "share": "rules", "min_support": "10%", "min_confidence": "50%"}
    hide(baskets, tmp_path / "plain.csv", **asked)
    secret.write_text("1 -> 3 ; disclosure=25%\nkeep: 1, 2\nkeep: 1, 3\n")
    made = hide(baskets, tmp_path / "own.csv", **asked)
    assert (tmp_path / "own.csv").read_text() == (tmp_path / "plain.csv").read_text()
    assert [note for note in made.notes if note.startswith("1 rule has thresholds")]
    assert [note for note in made.notes if note.startswith("1 of 2 itemsets to keep")]


def test_options_of_baskets_are_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    baskets, secret = files
    limits = {"min_support": "10%", "min_confidence": "50%"}
    for wrong in ({"method": "swa"}, {"shuffle": True}, {"stream": True}):
        with pytest.raises(ParameterError):
            hide(baskets, tmp_path / "r.csv", rules=secret, share="rules", **limits, **wrong)
    with pytest.raises(ParameterError, match="min-confidence"):
        hide(baskets, tmp_path / "r.csv", rules=secret, share="rules", min_support=5)


def test_the_command_says_what_it_shared(files: tuple[Path, Path], tmp_path: Path) -> None:
    baskets, secret = files
    words = ["hide", str(baskets), "--share", "rules", "--rules", str(secret), "-o"]
    words += [str(tmp_path / "rules.parquet"), "--min-support", "10%", "--min-confidence", "50%"]
    done = CliRunner().invoke(tulle, [*words, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["rules_secret"] == 1
