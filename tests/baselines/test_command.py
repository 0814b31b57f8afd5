"""``tulle baseline``: released, verified, audited and refused like every other release."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tulle._commands._decision import Refused
from tulle._commands.baseline import baseline, recover
from tulle._commands.verify import verify
from tulle.cli import tulle
from tulle.errors import ParameterError, TulleError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 400)
    table = pl.DataFrame(
        {
            "age": age,
            "size": np.round(rng.normal(3000, 400, 400) + 20 * age, 2),
            "town": rng.choice(["Bern", "Chur", "Genf"], 400),
            "ill": rng.choice(["flu", "cold"], 400),
        }
    )
    path = tmp_path / "people.csv"
    table.write_csv(path)
    return path


@pytest.mark.slow
def test_generalised_release_has_manifest_and_verdict(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "release.csv"
    made = baseline(source, output, k=20, target="ill", holdout=0.2, seed=0)
    release = pl.read_csv(output)
    assert release.group_by("age", "size", "town").len()["len"].min() >= 20
    manifest = json.loads((tmp_path / "release.csv.manifest.json").read_text())
    assert manifest["method"] == "generalisation"
    assert manifest["parameters"] == {"k": 20}
    assert all(manifest["verified"].values())
    assert made.audit.verdict["privacy"]["level"] in ("good", "caution", "undecided")
    assert verify(output)


@pytest.mark.slow
def test_a_bad_verdict_writes_nothing(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "release.csv"
    with pytest.raises(Refused):  # hardly any noise: the rows are the people's own
        baseline(source, output, method="randomize", noise=0.001, keep=0.99, holdout=0.2, seed=0)
    assert not output.exists()
    report = tmp_path / "report.json"
    baseline(
        source, output, method="randomize", noise=0.001, keep=0.99, holdout=0.2, seed=0,
        accept_risk="a test", report=report,
    )  # fmt: skip
    manifest = json.loads((tmp_path / "release.csv.manifest.json").read_text())
    assert manifest["accepted_risk"] == "a test"
    assert report.exists()


def test_options_of_another_method_are_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="--noise"):
        baseline(source, tmp_path / "release.csv", noise=0.3)
    with pytest.raises(ParameterError, match="--k"):
        baseline(source, tmp_path / "release.csv", method="randomize", k=5)
    wrong = CliRunner().invoke(tulle, ["baseline", str(source), "-o", "x.csv", "--method", "swap"])
    assert wrong.exit_code == 2


@pytest.mark.slow
def test_a_rotation_is_attacked_as_somebody_turns_it_back(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "turned.csv"
    asked = {"method": "rotate", "target": "ill", "holdout": 0.2, "seed": 0}
    with pytest.raises(Refused) as refused:  # without noise, known records undo it
        baseline(source, output, **asked)
    assert "--noise" in refused.value.verdict["privacy"]["next"]
    assert not output.exists()
    made = baseline(source, output, **asked, accept_risk="a test")
    assert made.audit.verdict["use"]["level"] == "undecided"
    release = pl.read_csv(output)
    assert release.columns == ["c1", "c2", "c3", "c4", "c5", "ill"]  # three towns
    fewer = baseline(source, tmp_path / "less.csv", **asked, components=2, accept_risk="a test")
    assert fewer.summary["components"] == 2
    assert verify(output)
    with pytest.raises(ParameterError, match="--components.*rotate"):
        run = CliRunner().invoke(
            tulle, ["baseline", str(source), "-o", str(tmp_path / "x.csv"), "--components", "2"]
        )
        raise run.exception or AssertionError(run.output)


@pytest.mark.slow
def test_distributions_are_recovered_from_a_release_by_its_manifest(
    source: Path, tmp_path: Path
) -> None:
    output, shares = tmp_path / "noisy.csv", tmp_path / "shares.csv"
    baseline(
        source, output, method="randomize", noise=0.5, keep=0.5, holdout=0.2, seed=0,
        accept_risk="a test",
    )  # fmt: skip
    run = CliRunner().invoke(
        tulle, ["baseline", str(output), "--recover", "-o", str(shares), "--bins", "12"]
    )
    assert run.exit_code == 0, run.output
    found = pl.read_csv(shares, schema_overrides={"value": pl.String})
    towns = found.filter(pl.col("column") == "town")
    assert set(towns["value"]) == {"Bern", "Chur", "Genf"}
    for part in found.partition_by("column"):
        assert part["share"].sum() == pytest.approx(1)
    assert found["value"].str.len_chars().max() < 13  # no 1.0500000000000003
    ages = found.filter(pl.col("column") == "age").with_columns(pl.col("value").cast(float))
    mean = (ages["value"] * ages["share"]).sum()
    assert mean == pytest.approx(pl.read_csv(source)["age"].mean(), abs=2)
    with pytest.raises(TulleError):
        recover(source, tmp_path / "other.csv")
