"""tulle condense --memory, as a user runs it on a table larger than that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from tulle._commands import _memory
from tulle._large import machine
from tulle._large.plan import BlockPlan
from tulle.cli import tulle
from tulle.condense._diversity import Sensitive
from tulle.errors import DataError, OutputExists, ParameterError, PrivacyError
from tulle.guessing.columns import infer_columns
from tulle.releases import read_manifest, verify_release
from tulle.table.policy import Policy, write_policy
from tulle.table.schema import Role


def visits(n: int = 1_000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": np.round(rng.normal(3000, 400, n), 2),
            "city": rng.choice(["Bern", "Chur", "Genf"], n),
            "ill": rng.choice(["yes", "no"], n, p=[0.4, 0.6]),
        }
    )


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(_memory, "needed", lambda source: float("inf"))
    monkeypatch.setattr(machine, "BLOCK", 300)
    monkeypatch.setattr(machine, "_LEAST_BLOCK", 200)
    path = tmp_path / "visits.csv"
    visits().write_csv(path)
    return path


def run(*arguments: object) -> Result:
    given = ["condense", *map(str, arguments), "--grouping", "levels", "--memory", "100MB"]
    return CliRunner().invoke(tulle, given)


def test_a_table_that_fits_is_refused_before_it_is_read_if_it_would_replace_parts(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = tmp_path / "release.csv"
    assert run(source, "-o", release, "--k", 7).exit_code == 0
    monkeypatch.setattr(_memory, "needed", lambda source: 0.0)
    monkeypatch.setattr("tulle._commands.condense.read_written", None)
    result = run(source, "-o", release, "--k", 7, "--force")
    assert isinstance(result.exception, OutputExists)
    assert all(row["holds"] for row in verify_release(release))


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".ndjson.gz"])
def test_a_release_of_parts_with_its_manifest(source: Path, tmp_path: Path, suffix: str) -> None:
    release = tmp_path / f"release{suffix}"
    result = run(source, "-o", release, "--k", 7, "--seed", 1, "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["records"] == summary["released"] == 1_000
    assert summary["blocks"] == len(list(release.iterdir())) > 1
    assert summary["smallest_group"] >= 35
    manifest = read_manifest(release)
    shown = manifest.guarantee["people that what is shown rests on, at least"]
    assert shown["how a column depends on others (a leaf)"] == 14
    assert shown["which records are alike (a group)"] == summary["smallest_group"]
    assert sorted(manifest.output["parts"]) == sorted(path.name for path in release.iterdir())
    assert sum(part["records"] for part in manifest.output["parts"].values()) == 1_000
    assert manifest.holds
    assert all(row["holds"] for row in verify_release(release))
    checked = CliRunner().invoke(tulle, ["verify", str(release)])
    assert checked.exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("plain", [False, True])
def test_parts_are_written_as_their_source_is(source: Path, tmp_path: Path, plain: bool) -> None:
    table = source.read_text().replace(".", "@").replace(",", ";").replace("@", ",")
    source.write_bytes(table.replace("\n", "\r\n").encode("utf-8-sig"))
    release = tmp_path / "release.csv"
    assert run(source, "-o", release, "--k", 7, *["--plain"] * plain).exit_code == 0
    parts = [path.read_bytes() for path in sorted(release.iterdir())]
    start = b"age,income" if plain else b"\xef\xbb\xbfage;income;city;ill\r\n"
    assert len(parts) > 1
    assert all(part.startswith(start) for part in parts)
    assert all((b"\r\n" in part and b"," in part) != plain for part in parts)
    told = read_manifest(release).output.get("written as", {}).get("separator")
    assert told == (None if plain else ";")
    assert all(row["holds"] for row in verify_release(release))


@pytest.mark.slow
def test_totals_are_exact_where_that_is_asked_for(source: Path, tmp_path: Path) -> None:
    release = tmp_path / "release.parquet"
    result = run(source, "-o", release, "--k", 7, "--exact-totals")
    assert result.exit_code == 0, result.output
    assert "totals are exact" in " ".join(result.output.split())
    shown = read_manifest(release).guarantee["people that what is shown rests on, at least"]
    assert shown["how a column depends on others (a leaf)"] == 7
    sizes = [part["records"] for part in read_manifest(release).output["parts"].values()]
    assert sum(sizes) == 1_000


@pytest.mark.slow
def test_the_same_seed_gives_the_same_parts(source: Path, tmp_path: Path) -> None:
    first, again, other = (tmp_path / f"{name}.parquet" for name in ("first", "again", "other"))
    for release, seed in ((first, 1), (again, 1), (other, 2)):
        assert run(source, "-o", release, "--seed", seed).exit_code == 0
    digests = [read_manifest(release).output["sha256"] for release in (first, again, other)]
    assert digests[0] == digests[1] != digests[2]


def test_classes_are_kept_apart_and_small_ones_refused_or_withheld(
    source: Path, tmp_path: Path
) -> None:
    table = visits().with_columns(ill=pl.Series(["yes"] * 4 + ["no"] * 500 + ["maybe"] * 496))
    table.write_csv(source)
    asked = (source, "-o", tmp_path / "r.parquet", "--target", "ill", "--k", 10)
    refused = run(*asked)
    assert isinstance(refused.exception, PrivacyError)
    assert "'ill'" in str(refused.exception)
    assert "1 of 3" in str(refused.exception)
    assert run(*asked, "--small-classes", "suppress").exit_code == 0
    release = pl.read_parquet(tmp_path / "r.parquet" / "*.parquet")
    assert set(release["ill"]) == {"no", "maybe"}
    manifest = read_manifest(tmp_path / "r.parquet")
    assert manifest.counts["suppressed"] in ("fewer than 10", "about 10")
    assert "records" not in manifest.source  # less those released, it would be the exact count


def test_people_with_several_rows_are_not_taken_for_rows(source: Path, tmp_path: Path) -> None:
    """What looks like an identifier in a sample may name each person in several rows."""
    rng = np.random.default_rng(0)
    numbers = np.repeat(rng.choice(10**9, 10_000, replace=False), 3)
    rng.shuffle(numbers)
    table = visits(30_000).with_columns(account=numbers)
    table.write_csv(source)
    refused = run(source, "-o", tmp_path / "r.parquet", "--strict")
    assert isinstance(refused.exception, DataError)
    assert "'account'" in str(refused.exception)
    assert not (tmp_path / "r.parquet").exists()
    shown = run(source, "-o", tmp_path / "r.parquet").output
    assert "count the distinct people in column 'account', not rows" in shown
    release = pl.read_parquet(tmp_path / "r.parquet")
    assert release["account"].n_unique() == 10_000
    assert release["account"].max() < 20_000
    assert (release.group_by("account").len()["len"] == 3).mean() > 0.99


def test_what_cannot_be_is_refused_at_once(source: Path, tmp_path: Path) -> None:
    given = ["condense", str(source), "-o", str(tmp_path / "r.parquet"), "--memory", "much"]
    result = CliRunner().invoke(tulle, given)
    assert isinstance(result.exception, ParameterError)
    assert "--memory" in str(result.exception)


def trips(n: int = 2_000) -> pl.DataFrame:
    """A table with a formula, an order, a set of which one is 1, and a sensitive column."""
    rng = np.random.default_rng(1)
    weight, height = rng.normal(70, 12, n).round(1), rng.normal(170, 9, n).round()
    start, which = rng.integers(0, 300, n), rng.integers(0, 3, n)
    return pl.DataFrame(
        {
            "weight": weight,
            "height": height,
            "bmi": (weight / (height / 100) ** 2).round(1),
            "start": start,
            "end": start + rng.integers(0, 9, n),
            **{f"by_{way}": (which == place).astype(int) for place, way in enumerate("abc")},
            "illness": rng.choice(["none", "flu", "cold", "hiv"], n, p=[0.7, 0.15, 0.1, 0.05]),
        }
    )


@pytest.mark.slow
def test_rules_are_found_on_a_sample_and_kept_in_every_block(source: Path, tmp_path: Path) -> None:
    trips().write_csv(source)
    release = tmp_path / "r.parquet"
    result = run(source, "-o", release, "--k", 5, "--seed", 1)
    assert result.exit_code == 0, result.output
    made = pl.read_parquet(release / "*.parquet")
    assert len(list(release.iterdir())) > 3
    assert (made["end"] >= made["start"]).all()
    assert (made.select(pl.sum_horizontal("by_a", "by_b", "by_c")).to_series() == 1).all()
    formed = made["weight"] / (made["height"] / 100) ** 2
    assert ((made["bmi"] - formed).abs() <= 0.051).all()
    rules = {one["rule"]: one for one in read_manifest(release).counts["rules"]}
    assert "start <= end" in rules
    assert {one["source"] for one in rules.values()} == {"found in the table"}
    assert all(one["released records that break it"] == 0 for one in rules.values())


@pytest.mark.slow
@pytest.mark.parametrize("target", [(), ("--target", "city")])
def test_survey_weights_of_the_blocks_add_up(
    source: Path, tmp_path: Path, target: tuple[str, ...]
) -> None:
    rng = np.random.default_rng(3)
    factor = 1 + pl.Series(rng.uniform(0, 1, 1_000)) + (pl.col("city") == "Bern")
    table = visits().with_columns(anweight=factor.round(4))
    table.write_csv(source)
    release = tmp_path / "r.parquet"
    result = run(source, "-o", release, "--k", 5, "--seed", 1, *target)
    assert result.exit_code == 0, result.output
    made = pl.read_parquet(release / "*.parquet")
    blocks = len(list(release.glob("*.parquet")))
    assert blocks > 1
    assert made["anweight"].sum() == pytest.approx(table["anweight"].sum(), rel=1e-5)
    shares, means = [], []
    for one in (table, made):
        weights = one["anweight"]
        cities = one.group_by("city").agg(pl.col("anweight").sum())
        shares.append(dict(cities.iter_rows()))
        means.append(float((one["income"] * weights).sum() / weights.sum()))
    most = float(table["anweight"].max())  # what one person says, in each block
    assert shares[1] == pytest.approx(shares[0], abs=2 * blocks * most)
    assert means[1] == pytest.approx(means[0], abs=15)  # the standard error is 13
    assert read_manifest(release).columns["anweight"]["role"] == "weight"


@pytest.mark.slow
def test_given_rules_and_diversity_are_kept_in_every_block(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = trips()
    table = table.with_columns(end=pl.when(pl.col("start") % 50 > 0).then("end").otherwise(0))
    table.write_csv(source)
    columns = [
        replace(c, diversity=3 if c.name == "illness" else None) for c in infer_columns(table)
    ]
    write_policy(Policy(columns, rules=("start <= end",)), tmp_path / "p.toml")
    counted: list[np.ndarray] = []
    check = Sensitive.falls_short

    def watched(self: Sensitive, groups: np.ndarray) -> np.ndarray:
        short = check(self, groups)
        counted.append(short)
        return short

    monkeypatch.setattr(Sensitive, "falls_short", watched)
    release = tmp_path / "r.parquet"
    result = run(source, "-o", release, "--k", 5, "--policy", tmp_path / "p.toml")
    assert result.exit_code == 0, result.output
    assert len(counted) >= len(list(release.iterdir())) > 3
    made = pl.read_parquet(release / "*.parquet")
    assert (made["end"] >= made["start"]).all()
    said = " ".join(result.output.split())
    assert "broken in 2.0% of the table's records" in said
    assert "every group has 3 different values" in said


@pytest.mark.parametrize(("closeness", "made"), [(0.45, True), (0.1, False)])
def test_groups_are_close_to_the_whole_table_though_classes_are_blocks(
    closeness: float, made: bool, source: Path, tmp_path: Path
) -> None:
    """Nobody of a class of high incomes can be in a group like the table, however large it is."""
    table = visits()
    more = pl.col("income") + pl.when(pl.col("ill") == "yes").then(2_000).otherwise(0)
    table.with_columns(more).write_csv(source)
    columns = [
        replace(c, role=Role.SENSITIVE, closeness=closeness) if c.name == "income" else c
        for c in infer_columns(pl.read_csv(source))
    ]
    write_policy(Policy(columns), tmp_path / "p.toml")
    asked = ("--policy", tmp_path / "p.toml", "--target", "ill", "--k", 10)
    result = run(source, "-o", tmp_path / "r.parquet", *asked)
    said = " ".join(f"{result.output} {result.exception}".split())
    assert result.exit_code == (0 if made else 1), said
    assert ("'income': every group has a distribution within 0.45" in said) == made
    assert ("'income': not even all records together have" in said) != made


def test_small_classes_are_pooled(source: Path, tmp_path: Path) -> None:
    words = ["yes"] * 4 + ["never"] * 9 + ["no"] * 500 + ["maybe"] * 487
    visits().with_columns(ill=pl.Series(words)).write_csv(source)
    release = tmp_path / "r.parquet"
    asked = ("--target", "ill", "--k", 10, "--small-classes", "pool", "--exact-totals")
    result = run(source, "-o", release, *asked, "--json", "--seed", 2)
    assert result.exit_code == 0, result.output
    made = pl.read_parquet(release / "*.parquet")
    counts = dict(made["ill"].value_counts().iter_rows())
    assert (counts["no"], counts["maybe"]) == (500, 487)
    assert counts.get("yes", 0) + counts.get("never", 0) == 13
    assert json.loads(result.stdout)["suppressed"] == 0


@pytest.mark.slow
def test_people_are_kept_apart_and_the_release_is_attacked_with_them(
    source: Path, tmp_path: Path
) -> None:
    table = visits(1_500).with_columns(who=pl.Series([f"p{i // 2}" for i in range(1_500)]))
    table.write_csv(source)
    columns = [replace(c, role=Role.PERSON) if c.name == "who" else c for c in infer_columns(table)]
    write_policy(Policy(columns), tmp_path / "p.toml")
    seen: list[pl.DataFrame] = []

    with pytest.MonkeyPatch.context() as patch:
        condense = BlockPlan.condense

        def watched(plan: BlockPlan, frame: pl.DataFrame, number: int) -> object:
            seen.append(frame)
            return condense(plan, frame, number)

        patch.setattr(BlockPlan, "condense", watched)
        asked = ("--policy", tmp_path / "p.toml", "--holdout", "20%", "--k", 5, "--seed", 1)
        report = tmp_path / "r.json"
        result = run(source, "-o", tmp_path / "r.parquet", *asked, "--report", report, "--json")
    assert result.exit_code == 0, result.output
    members = pl.concat(seen)
    summary = json.loads(result.stdout)
    assert summary["records"] == members.height == 1_500 - summary["kept_apart"]
    assert 0.1 < summary["kept_apart"] / 1_500 < 0.3
    assert members["who"].value_counts()["count"].min() == 2  # whole people
    found = json.loads(report.read_text())
    assert found["attacks"]["membership"]["attempts"] > 0
    assert found["attacks"]["linkage"]["control"] is not None
    assert any("blocks, drawn by lot" in limit for limit in found["limits"])
    counts = read_manifest(tmp_path / "r.parquet").counts
    assert counts["kept apart as the control"] == summary["kept_apart"]


@pytest.mark.slow
def test_a_control_and_a_report_go_with_a_release_of_parts(source: Path, tmp_path: Path) -> None:
    control, report = tmp_path / "control.csv", tmp_path / "r.html"
    visits(300, seed=9).write_csv(control)
    result = run(source, "-o", tmp_path / "r.csv", "--control", control, "--report", report)
    assert result.exit_code == 0, result.output
    assert "blocks, drawn by lot" in report.read_text()


@pytest.mark.slow
def test_a_bad_release_of_parts_is_not_written_but_its_report_is(
    source: Path, tmp_path: Path
) -> None:
    """The mean of one person each is that person."""
    levels = visits().with_columns(level=pl.Series([1] * 1_000))
    levels.write_csv(source)
    report = tmp_path / "r.json"
    asked = ("--levels", "level", "--synthesis", "mean", "--report", report)
    result = run(source, "-o", tmp_path / "r.parquet", *asked)
    assert isinstance(result.exception, PrivacyError)
    assert "'bad'" in str(result.exception)
    assert report.exists()
    assert not (tmp_path / "r.parquet").exists()


def test_a_workbook_has_no_parts(source: Path, tmp_path: Path) -> None:
    result = run(source, "-o", tmp_path / "r.xlsx")
    assert isinstance(result.exception, ParameterError)
    assert "--output" in str(result.exception)


@pytest.mark.parametrize("size", ["", "500", "12XB", "-1GB", "10MB"])
def test_sizes_need_a_unit_and_room(size: str) -> None:
    with pytest.raises(ParameterError, match="--memory"):
        _memory.parse_size(size)


@pytest.mark.slow
def test_a_small_table_is_condensed_in_memory(tmp_path: Path) -> None:
    source = tmp_path / "visits.csv"
    visits(200).write_csv(source)
    result = run(source, "-o", tmp_path / "r.csv")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "r.csv").is_file()


@pytest.mark.slow
def test_a_killed_run_leaves_nothing_that_the_next_one_does_not_remove(
    source: Path, tmp_path: Path
) -> None:
    release = tmp_path / "r.parquet"
    script = f"""
import os, signal
from tulle._commands import _large, _memory
from tulle._commands.condense import condense
from tulle._large import machine
machine.BLOCK = machine._LEAST_BLOCK = 200
_memory.needed = lambda source: float("inf")
put = _large.PartWriter.write
def dying(writer, folder, number, frame):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return put(writer, folder, number, frame)
_large.PartWriter.write = dying
condense({str(source)!r}, {str(release)!r}, memory="100MB", grouping="levels")
"""
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    left = [name for name in os.listdir(tmp_path) if name != source.name]
    assert len(left) == 1  # the hidden folder of finished parts
    assert left[0].startswith(".")
    assert run(source, "-o", release).exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["r.parquet", "r.parquet.manifest.json", source.name]


@pytest.mark.parametrize("where", ["tulle._report.save", "tulle.releases._on_disk._completed"])
@pytest.mark.parametrize("parted", [True, False])
def test_a_release_and_its_report_are_written_both_or_neither(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, parted: bool
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    if not parted:
        monkeypatch.setattr(_memory, "needed", lambda source: 0.0)
        where = where.replace("_on_disk._completed", "manifest.Draft.finish")
    monkeypatch.setattr(where, interrupted)
    report, release = tmp_path / "report.json", tmp_path / "release.csv"
    asked = (source, "-o", release, "--k", 7, "--seed", 1, "--report", report)
    assert run(*asked, "--accept-risk", "nobody is in it").exit_code != 0
    assert [path.name for path in tmp_path.iterdir()] == ["visits.csv"]
    monkeypatch.undo()
    monkeypatch.setattr(_memory, "needed", lambda source: 0.0)
    assert run(*asked, "--accept-risk", "nobody is in it").exit_code == 0
    assert report.exists()
    assert release.exists()
