from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from tulle import quest, read_fimi
from tulle.cli import tulle
from tulle.errors import ParameterError
from tulle.releases import verify_release


@pytest.mark.slow
def test_demo_writes_release_manifest_and_report(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    result = CliRunner().invoke(tulle, ["demo", str(folder), "--seed", "0", "--json"])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["smallest_group"] >= 20
    assert summary["accuracy_ratio"] > 0.8
    assert sorted(os.listdir(folder)) == [
        "patients.csv",
        "release.parquet",
        "release.parquet.manifest.json",
        "report.html",
    ]
    assert all(row["holds"] for row in verify_release(folder / "release.parquet"))
    attacks = {row["attack"]: row for row in summary["attacks"]}
    assert attacks["linkage"]["rate"] < 0.05


def test_quest_baskets_are_those_of_the_library(tmp_path: Path) -> None:
    target = tmp_path / "quest.dat"
    asked = ["demo", str(target), "--quest", "T5.I2.D300", "--seed", "3"]
    assert CliRunner().invoke(tulle, asked).exit_code == 0
    drawn = quest(5, 2, 300, random_state=3)
    baskets = read_fimi(target)
    assert len(baskets.items) == drawn.nnz
    assert len(baskets) == int((drawn.sum(axis=1) > 0).sum())
    wrong = CliRunner().invoke(tulle, [*asked[:3], "ten", "--force"])
    assert isinstance(wrong.exception, ParameterError)
