"""Rules between columns on the command line: inspect, policy, release, manifest, report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from benchmarks.wards import RULES, hospital, impossible
from tulle.cli import tulle
from tulle.errors import GateError, ParameterError
from tulle.io.read import read_table
from tulle.io.write import write_table
from tulle.releases import read_manifest
from tulle.table.policy import load_policy


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(hospital(1200), "visits.csv")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(tulle, list(arguments))


def condensed(*arguments: str) -> pl.DataFrame:
    result = run(
        "condense", "visits.csv", "-o", "release.csv", "--k", "10", "--seed", "1", *arguments
    )
    assert result.exit_code == 0, result.output
    return read_table("release.csv")


def policy(rules: str) -> str:
    """Write a policy with these lines under [rules]."""
    Path("policy.toml").write_text(f"[rules]\n{rules}\n")
    return "policy.toml"


@pytest.mark.slow
def test_a_plain_release_has_no_impossible_row() -> None:
    write_table(hospital(2500), "visits.csv", force=True)  # 'age < 15' rests on 1.5 k of one age
    assert not impossible(condensed())
    entries = read_manifest("release.csv").counts["rules"]
    assert entries
    assert all(entry["source"] == "found in the table" for entry in entries)
    assert all(entry["released records that break it"] == 0 for entry in entries)


@pytest.mark.slow
def test_inspect_proposes_rules_that_a_release_then_keeps() -> None:
    write_table(hospital(2500), "visits.csv", force=True)
    found = json.loads(run("inspect", "visits.csv", "-o", "p.toml", "--json").stdout)
    rules = {row["rule"]: row for row in found["rules_between_columns"]}
    assert rules["age = years(born, admitted)"]["records"] == 2500
    assert rules["age = years(born, admitted)"]["exceptions"] == 0
    assert load_policy("p.toml").rules == tuple(rules)
    assert "# holds in all of 2,500 records" in Path("p.toml").read_text()
    assert not impossible(condensed("--policy", "p.toml", "--report", "report.html"))
    entries = read_manifest("release.csv").counts["rules"]
    assert [entry["rule"] for entry in entries] == list(rules)
    assert {entry["source"] for entry in entries} == {"given"}
    assert "Rules between columns" in Path("report.html").read_text()


@pytest.mark.slow
def test_rules_of_a_policy_hold_class_by_class() -> None:
    lines = "\n".join(f"rule{i} = {json.dumps(rule)}" for i, rule in enumerate(RULES))
    release = condensed("--policy", policy(lines), "--target", "died")
    assert not impossible(release)


@pytest.mark.slow
def test_an_empty_section_keeps_no_rules() -> None:
    assert impossible(condensed("--policy", policy("")))
    assert read_manifest("release.csv").counts["rules"] == []


@pytest.mark.slow
def test_a_rule_that_cannot_be_read_is_named_and_nothing_is_written() -> None:
    rules = policy('between = ["admitted <= discharged", "stay = discharged -"]')
    result = run("condense", "visits.csv", "-o", "release.csv", "--policy", rules)
    assert isinstance(result.exception, ParameterError)
    assert str(result.exception).startswith("policy.toml: [rules]")
    assert "position 20" in str(result.exception)
    assert not Path("release.csv").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_a_release_that_breaks_a_rule_is_refused_unless_that_is_accepted() -> None:
    rules = policy('bmi = "bmi = weight / (height / 100) ** 2"')
    arguments = ("condense", "visits.csv", "-o", "release.csv", "--policy", rules)
    result = run(*arguments, "--synthesis", "uniform")
    assert isinstance(result.exception, GateError)
    assert str(result.exception).startswith("--accept-broken-rules")
    assert not Path("release.csv").exists()
    accepted = ("--accept-broken-rules", "--accept-risk", "a test of rules")
    result = run(*arguments, "--synthesis", "uniform", *accepted, "--json")
    assert result.exit_code == 0
    [entry] = read_manifest("release.csv").counts["rules"]
    assert entry["released records that break it"] > 0
    assert any("is broken in" in note for note in json.loads(result.stdout)["notes"])


@pytest.mark.slow
def test_formulas_and_sets_of_a_policy_hold_in_every_row() -> None:
    rng = np.random.default_rng(0)
    exper = np.minimum(rng.geometric(0.15, 1200), 30)  # the largest are rare
    wage, place = rng.lognormal(2, 0.5, 1200).round(2), rng.integers(0, 3, 1200)
    table = pl.DataFrame({"wage": wage, "lwage": np.log(wage).round(6), "exper": exper})
    table = table.with_columns(expersq=pl.col("exper") ** 2, code=pl.col("exper") * 7919 % 1000)
    places = [pl.Series(name, (place == i).astype(int)) for i, name in enumerate("abc")]
    write_table(table.with_columns(places), "visits.csv", force=True)
    lines = 'pay = "lwage = log(wage)"\nsq = "expersq = exper^2"\nplace = "one_of(a, b, c)"'
    release = condensed("--policy", policy(lines + '\ncode = "exper -> code"'), "--no-audit")
    assert (release["lwage"] - release["wage"].log()).abs().max() < 6e-7
    assert (release["expersq"] == release["exper"] ** 2).all()
    assert (release.select("a", "b", "c").sum_horizontal() == 1).all()
    assert release.join(table, ["exper", "code"], "anti").height == 0
    entries = read_manifest("release.csv").counts["rules"]
    assert [entry["released records that break it"] for entry in entries] == [0] * 4
