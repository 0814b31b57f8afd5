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
from tulle._commands.explore import explore_file
from tulle._commands.split import split_file
from tulle._commands.stream import stream
from tulle._commands.tune import tune
from tulle.errors import DataError
from tulle.releases import read_manifest, verify_release

pytestmark = pytest.mark.slow

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
    assert f"{people} people original" in found["summary"]
    assert pl.read_csv(release).columns == pl.read_csv(members).columns  # with new keys


def test_tuning_counts_people(source: Path) -> None:
    made = tune(source, target="ward", strategy="gcd", repeats=1, seed=1)
    assert made.summary["chosen_k"] <= 90


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the visits of members and of others, each person's much alike."""
    folder = tmp_path_factory.mktemp("parted")
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(150), 5)
    body = (rng.normal(0, 1, (150, 4)) * [12, 9, 15, 8] + [50, 120, 80, 25])[who]
    visits = (body + rng.normal(0, 0.15, body.shape)).round(1)
    table = pl.DataFrame(visits, schema=["age", "pressure", "weight", "bmi"])
    ward = pl.Series("ward", np.array(["A", "B", "C", "D"])[who % 4])
    table = table.with_columns(pl.Series("patient", who), ward)
    order = rng.permutation(table.height)
    table[order].write_csv(folder / "visits.csv")
    roles = {"patient": ("integer", "person"), "ward": ("category", "sensitive")}
    lines = [
        f'[columns.{name}]\nkind = "{kind}"\nrole = "{role}"\n'
        for name in table.columns
        for kind, role in [roles.get(name, ("decimal", "quasi-identifier"))]
    ]
    (folder / "policy.toml").write_text("".join(lines))
    members, control = folder / "members.csv", folder / "control.csv"
    split_file(
        folder / "visits.csv", members,
        control=control, share="40%", policy=folder / "policy.toml", seed=1,
    )  # fmt: skip
    return folder


@pytest.mark.parametrize("k", [2, 30])
def test_a_release_is_attacked_alike_wherever_it_is_made(parted: Path, k: int) -> None:
    """Visits of one person hide each other from attacks on rows, and give away attacks on sets."""
    members, release = parted / "members.csv", parted / f"release-{k}.csv"
    common = {"control": parted / "control.csv", "policy": parted / "policy.toml", "seed": 3}
    made = condense(
        members, release, k=k, report=parted / f"report-{k}.json", accept_risk="a test", **common
    ).audit.to_dict()
    audited = audit_files(members, release, **common).to_dict()
    frontier = explore_file(
        members, parted / f"explored-{k}", k=(k,), synthesis=("shape",), **common
    )
    explored = frontier.audit(k).to_dict()
    assert made["attacks"]["linkage"]["attempts"] == 90  # people, of 450 rows
    for name in ("exact_copies", "near_copies", "linkage", "membership", "singling_out"):
        assert made["attacks"][name] == audited["attacks"][name] == explored["attacks"][name]
    levels = {found["verdict"]["privacy"]["level"] for found in (made, audited, explored)}
    assert len(levels) == 1


def test_a_control_says_whose_rows_it_has(parted: Path, tmp_path: Path) -> None:
    members, policy = parted / "members.csv", parted / "policy.toml"
    control, release = tmp_path / "control.csv", tmp_path / "release.csv"
    pl.read_csv(parted / "control.csv").drop("patient").write_csv(control)
    with pytest.raises(DataError, match="'patient'"):
        condense(members, release, k=5, seed=1, policy=policy, control=control)
    pl.read_csv(members).drop("patient").write_csv(release)
    with pytest.raises(DataError, match="no column 'patient'"):
        audit_files(members, release, policy=policy, control=control)
