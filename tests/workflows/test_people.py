"""Commands on tables in which people have several rows: the manifest says whom it protects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.reference.streams import same_groups
from tulle import SecretKey
from tulle._commands.audit import audit_files
from tulle._commands.condense import condense
from tulle._commands.split import split_file
from tulle._commands.stream import stream
from tulle._commands.tune import tune
from tulle.errors import KeyMaterialError
from tulle.releases import read_manifest, verify_release

OPTIONS = {"k": 5, "init": 100, "seed": 1, "split": "strict"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    who = rng.integers(0, 90, 600)
    place = rng.normal(50, 9, (90, 2))[who] + rng.normal(0, 0.5, (600, 2))
    table = pl.DataFrame(
        {
            "patient_id": [f"P{number:05d}" for number in who],
            "age": place[:, 0].round().astype(int),
            "weight": place[:, 1].round(1),
            "ward": rng.choice(["A", "B"], 90)[who],
        }
    )
    table.write_csv(tmp_path / "visits.csv")
    return tmp_path / "visits.csv"


def test_a_stream_counts_people_and_resumes(source: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyMaterialError, match="'patient_id'"):
        stream(str(source), tmp_path / "refused", state=tmp_path / "none", **OPTIONS)
    assert not (tmp_path / "none").exists()
    key, lines = SecretKey.generate(), source.read_text().splitlines(keepends=True)
    parts = tmp_path / "parts.csv"
    parts.write_text("".join(lines[:301]))
    common = {"key": key, **OPTIONS}
    stream(str(parts), tmp_path / "two", state=tmp_path / "two.st", **common)
    parts.write_text("".join(lines))
    stream(str(parts), tmp_path / "two", state=tmp_path / "two.st", **common)
    done = stream(str(source), tmp_path / "one", state=tmp_path / "one.st", **common)
    same_groups(tmp_path / "one.st", tmp_path / "two.st")
    assert b"P000" not in (tmp_path / "one.st").read_bytes()
    manifest = read_manifest(tmp_path / "one" / "snapshot-000001.parquet")
    assert manifest.parameters["unit"] == "person (column 'patient_id')"
    assert manifest.counts["fewest people in a group"] >= 5
    assert manifest.columns["patient_id"]["role"] == "person"
    assert any("'patient_id'" in note for note in done.notes)


def test_releases_name_the_unit_and_audits_use_it(source: Path, tmp_path: Path) -> None:
    members, control, release = (tmp_path / name for name in ("m.csv", "c.csv", "r.csv"))
    split_file(source, members, control=control, share="30%", seed=1)
    condense(members, release, k=5, seed=1, accept_risk="a test")
    manifest = read_manifest(release)
    assert manifest.parameters["unit"] == "person (column 'patient_id')"
    assert manifest.counts["fewest people in a group"] >= 5
    assert all(row["holds"] for row in verify_release(release))
    found = audit_files(members, release, control=control, seed=1).to_dict()
    people = pl.read_csv(members)["patient_id"].n_unique()
    assert found["attacks"]["exact_copies"]["attempts"] == people
    assert f"of {people} people" in found["summary"]


def test_tuning_counts_people(source: Path) -> None:
    made = tune(source, target="ward", strategy="gcd", repeats=1, seed=1)
    assert made.summary["chosen_k"] <= 90
