"""Condensation on Spark: the bytes of the release that one machine makes, whatever happens."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tests.large.test_blocks import COLUMNS, people
from tulle import read_manifest, spark, verify_release
from tulle._commands import _memory
from tulle._commands.condense import condense
from tulle._large import machine
from tulle._large.plan import Finished
from tulle.cli import tulle
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.spark import _condense as on_spark
from tulle.table.policy import Policy, write_policy

pytestmark = pytest.mark.slow

ROWS = 1_200


@pytest.fixture(autouse=True)
def small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_spark, "BLOCK", 250)
    monkeypatch.setattr(on_spark, "SAMPLE", 500)
    monkeypatch.setattr(_memory, "needed", lambda source: float("inf"))
    budget = machine.Budget(10**9, 2, block=250, sample=500)
    monkeypatch.setattr(machine.Budget, "of", lambda *_: budget)


def parts_of(release: Path) -> dict[str, bytes]:
    return {part.name: part.read_bytes() for part in sorted(release.iterdir())}


def on_machine(table: pl.DataFrame, folder: Path, **options: Any) -> dict[str, bytes]:
    source = folder / "table.parquet"
    table.write_parquet(source)
    condense(source, folder / "one.parquet", seed=3, **options)
    return parts_of(folder / "one.parquet")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    write_policy(Policy(COLUMNS), tmp_path / "policy.toml")
    return tmp_path / "policy.toml"


def test_people_levels_and_all_kinds_of_columns_by_the_command(
    session: Any, tmp_path: Path, policy: Path
) -> None:
    table = people(ROWS)
    wanted = on_machine(table, tmp_path, policy=policy, grouping="levels")
    session.read.parquet(str(tmp_path / "table.parquet")).repartition(5).createOrReplaceTempView(
        "t"
    )
    release = tmp_path / "many.parquet"
    options = ["--policy", str(policy), "--grouping", "levels", "--seed", "3", "--engine", "spark"]
    done = CliRunner().invoke(tulle, ["condense", "t", "-o", str(release), *options])
    assert done.exit_code == 0, done.output
    assert len(wanted) > 2
    assert parts_of(release) == wanted
    manifest = read_manifest(release)
    assert manifest.parameters["engine"] == "spark"
    assert manifest.parameters["encrypted on the cluster"] is True
    assert manifest.source["records"] == ROWS
    released = pl.read_parquet(sorted(release.glob("*.parquet")))
    assert released["person"].n_unique() == table["person"].n_unique()
    assert all(check["holds"] for check in verify_release(release))


def test_rules_diversity_a_holdout_and_a_report_are_those_of_one_machine(
    session: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    wage, years = rng.integers(10, 90, 2 * ROWS), rng.integers(0, 40, 2 * ROWS)
    illness = rng.choice(["a", "b", "c", "d"], 2 * ROWS)
    table = pl.DataFrame({"wage": wage, "years": years, "squared": years**2, "illness": illness})
    policy = tmp_path / "policy.toml"
    plain = 'kind = "integer"\nrole = "quasi-identifier"\n'
    policy.write_text(
        "".join(f"[columns.{name}]\n{plain}" for name in ("wage", "years", "squared"))
        + '[columns.illness]\nkind = "category"\nrole = "sensitive"\ndiversity = 2\n'
        + '[rules]\nsquares = ["squared = years^2"]\n'
    )
    options: dict[str, Any] = {"policy": policy, "k": 10, "holdout": "10%"}
    wanted = on_machine(table, tmp_path, report=tmp_path / "one.html", **options)
    release, report = tmp_path / "many.parquet", tmp_path / "many.html"
    df = session.read.parquet(str(tmp_path / "table.parquet")).repartition(3)
    manifest = spark.condense(df, release, random_state=3, report=report, **options)
    assert parts_of(release) == wanted
    released = pl.read_parquet(sorted(release.glob("*.parquet")))
    assert (released["squared"] == released["years"] ** 2).all()
    apart = manifest.counts["kept apart as the control"]
    assert apart + manifest.counts["released"] == 2 * ROWS
    assert "squared = years" in report.read_text()


def test_workers_that_are_killed_change_nothing(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = people(ROWS).drop("person", "level")
    wanted = on_machine(table, tmp_path, grouping="levels", k=5, target="smoker")
    before, after = tmp_path / "before", tmp_path / "after"
    joined, answer = on_spark.unpack, on_spark.answer

    def dies_with_the_records(blocks: list[bytes]) -> Any:
        if not before.exists():
            before.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return joined(blocks)

    def dies_when_the_part_is_written(found: Any) -> Any:
        written = isinstance(found, Finished)
        if written and not after.exists():
            after.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return answer(found)

    monkeypatch.setattr(on_spark, "unpack", dies_with_the_records)
    monkeypatch.setattr(on_spark, "answer", dies_when_the_part_is_written)
    release = tmp_path / "many.parquet"
    df = session.read.parquet(str(tmp_path / "table.parquet")).repartition(2)
    spark.condense(df, release, grouping="levels", k=5, target="smoker", random_state=3)
    assert before.exists()
    assert after.exists()
    assert parts_of(release) == wanted
    assert not list(tmp_path.glob(".many*"))


def test_errors_come_back_without_a_value_and_nothing_is_written(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = session.createDataFrame([(i % 9, f"secret{i % 2}") for i in range(60)], "x long, y string")
    df = df.coalesce(1)
    with pytest.raises(PrivacyError):
        spark.condense(df, tmp_path / "r.parquet", k=99)

    def fails(blocks: list[bytes]) -> Any:
        raise ValueError("secret")

    monkeypatch.setattr(on_spark, "unpack", fails)
    with pytest.raises(DataError) as caught:
        spark.condense(df, tmp_path / "r.parquet", k=5)
    assert "secret" not in repr(caught.value)
    assert caught.value.__suppress_context__
    assert os.listdir(tmp_path) == []


def test_what_is_unsafe_is_refused_before_a_record_is_read(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = session.range(100).selectExpr("id % 7 as x", "id % 3 as y")
    with monkeypatch.context() as patch:
        patch.setattr(on_spark, "over_rows", None)
        patch.setattr("tulle.spark._session._ON_DISK", ("spark.tulle.is.never.set",))
        with pytest.raises(PrivacyError, match=r"spark\.tulle\.is\.never\.set"):
            spark.condense(df, tmp_path / "r.parquet")
        with pytest.raises(ParameterError, match="holdout"):
            spark.condense(df, tmp_path / "r.parquet", holdout=0.1, audit=False)
        with pytest.raises(ParameterError, match="random_state"):
            spark.condense(df, tmp_path / "r.parquet", random_state=1, seed=5)
        with pytest.raises(ParameterError):
            spark.condense(df, "s3a://bucket/r.parquet", accept_risk="the disks are encrypted")
    other = {**on_spark.versions(), "polars": "0.0.1"}
    monkeypatch.setattr(on_spark, "versions", lambda: other)
    with pytest.raises(DataError, match="polars"):
        spark.condense(df.coalesce(1), tmp_path / "r.parquet")
    assert os.listdir(tmp_path) == []
