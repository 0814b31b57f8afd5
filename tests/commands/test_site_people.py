"""tulle sites, end to end, for two sites that hold other columns of the same people."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from tulle._commands import site_tables
from tulle.cli import tulle
from tulle.errors import DataError
from tulle.releases import manifest_path, verify_release


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    ids = np.array([f"AB{i:04}" for i in range(120)])
    ill = rng.choice(["Flu", "Mumps"], 90)
    clinic = pl.DataFrame({"insured": ids[:90], "age": rng.integers(18, 90, 90), "ill": ill})
    insurer = pl.DataFrame({"insured": ids[5:], "cost": np.round(rng.gamma(2, 300, 115), 2)})
    clinic.sample(fraction=1, shuffle=True, seed=1).write_csv("clinic.csv")
    insurer.sample(fraction=1, shuffle=True, seed=2).write_csv("insurer.csv")
    for name in ("clinic", "insurer"):
        assert run("summary", f"{name}.csv", "-o", f"{name}.json").exit_code == 0
    agreed = run("agree", "clinic.json", "insurer.json", "-o", "agreed", "--match", "insured",
                 "--key-file", "key")  # fmt: skip
    assert agreed.exit_code == 0, agreed.exception
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(tulle, ["sites", *words])


def encode(name: str, kind: str = "parquet", *more: str) -> Result:
    return run("encode", f"{name}.csv", "-o", f"{name}.{kind}", "-a", "agreed",
               "--key-file", "key", *more)  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "csv.gz"])
def test_from_two_tables_to_one_that_the_sites_can_read(folder: Path, kind: str) -> None:
    for name in ("clinic", "insurer"):
        made = encode(name, kind)
        assert made.exit_code == 0, made.exception
    joined = run("join", f"clinic.{kind}", f"insurer.{kind}", "-o", "joined.parquet", "--json")
    assert joined.exit_code == 0, joined.exception
    told = json.loads(joined.stdout)
    assert told["records"] == 85
    assert [row["left_out"] for row in told["joined"]] == ["fewer than 10", 30]
    assert "pseudonymised" in joined.stdout
    assert pl.read_parquet("joined.parquet").columns == ["age", "ill", "cost"]
    assert all(row["holds"] for row in verify_release("joined.parquet"))
    manifest = manifest_path("joined.parquet").read_text()
    assert "insured" not in manifest
    assert not any(id in manifest for id in pl.read_csv("clinic.csv")["insured"])

    decoded = run("decode", "joined.parquet", "-o", "plain.csv", "-a", "agreed",
                  "--key-file", "key", "--values", "clinic.csv")  # fmt: skip
    assert decoded.exit_code == 0, decoded.exception
    plain = pl.read_csv("plain.csv").sort("age", "ill", "cost")
    truth = pl.read_csv("clinic.csv").join(pl.read_csv("insurer.csv"), on="insured")
    assert plain.equals(truth.select(plain.columns).sort("age", "ill", "cost"))


def test_nobody_may_occur_twice_even_in_two_batches(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pl.read_csv("insurer.csv")
    monkeypatch.setattr(
        site_tables, "read_batches", lambda source: iter([table.head(60), table.slice(59)])
    )
    wrong = encode("insurer")
    assert isinstance(wrong.exception, DataError)
    assert "'insured': 2 records" in str(wrong.exception)
    assert not Path("insurer.parquet").exists()


def test_joins_that_make_no_sense_are_refused_and_write_nothing(folder: Path) -> None:
    encode("clinic")
    encode("insurer")
    assert encode("insurer", "g2.parquet", "--release", "2027").exit_code == 0
    for tables, word in (
        (["clinic.parquet", "insurer.g2.parquet"], "agreement"),  # other pseudonyms
        (["clinic.parquet", "clinic.parquet"], "'age'"),
        (["clinic.parquet"], "two"),
    ):
        refused = run("join", *tables, "-o", "joined.parquet")
        assert isinstance(refused.exception, DataError)
        assert word in str(refused.exception)
        assert not Path("joined.parquet").exists()
    assert run("join", "clinic.parquet", "insurer.parquet", "-o", "joined.parquet").exit_code == 0
    again = run("join", "joined.parquet", "insurer.parquet", "-o", "more.parquet")
    assert isinstance(again.exception, DataError)


def test_the_report_says_that_sites_can_tell_who_somebody_is(folder: Path) -> None:
    made = encode("clinic", "parquet", "--report", "report.json")
    assert made.exit_code == 0, made.exception
    report = json.loads(Path("report.json").read_text())
    assert any("pseudonym" in limit for limit in report["limits"])
    assert not any("insured" in name for name in report["attacks"])
    assert "AB00" not in Path("report.json").read_text()
