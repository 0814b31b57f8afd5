"""tulle condense --memory, as a user runs it on a table larger than that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from tulle._commands import _large
from tulle._files import OutputExists
from tulle._large import machine
from tulle.cli import tulle
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.releases import read_manifest, verify_release


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
    monkeypatch.setattr(_large, "needed", lambda source: float("inf"))
    monkeypatch.setattr(machine, "CELL", 300)
    monkeypatch.setattr(machine, "_LEAST_CELL", 200)
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
    monkeypatch.setattr(_large, "needed", lambda source: 0.0)
    monkeypatch.setattr("tulle.io.read.read_table", None)
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
    assert summary["cells"] == len(list(release.iterdir())) > 1
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
    refused = run(source, "-o", tmp_path / "r.parquet")
    assert isinstance(refused.exception, DataError)
    assert "'account'" in str(refused.exception)
    assert not (tmp_path / "r.parquet").exists()


@pytest.mark.parametrize(
    "arguments, word",
    [(("--report", "r.html"), "--report"), (("--memory", "much"), "--memory")],
)
def test_what_cannot_be_is_refused_at_once(
    source: Path, tmp_path: Path, arguments: tuple[str, ...], word: str
) -> None:
    given = ["condense", str(source), "-o", str(tmp_path / "r.parquet"), "--memory", "100MB"]
    result = CliRunner().invoke(tulle, [*given, *arguments])
    assert isinstance(result.exception, ParameterError)
    assert word in str(result.exception)


def test_a_workbook_has_no_parts(source: Path, tmp_path: Path) -> None:
    result = run(source, "-o", tmp_path / "r.xlsx")
    assert isinstance(result.exception, ParameterError)
    assert "--output" in str(result.exception)


@pytest.mark.parametrize("size", ["", "500", "12XB", "-1GB", "10MB"])
def test_sizes_need_a_unit_and_room(size: str) -> None:
    with pytest.raises(ParameterError, match="--memory"):
        _large.parse_size(size)


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
from tulle._commands import _large
from tulle._commands.condense import condense
from tulle._large import machine
machine.CELL = machine._LEAST_CELL = 200
_large.needed = lambda source: float("inf")
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
