"""Audits in batches: every attack on people drawn by lot, and copies among all records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tulle._attacks.linkage import BEYOND_CHANCE
from tulle._commands.audit import audit_files
from tulle._commands.condense import condense
from tulle._large import machine
from tulle._report.verdict import grade
from tulle.auditing import _batches
from tulle.auditing._batches import audit_batches
from tulle.auditing.audit import audit
from tulle.cli import tulle
from tulle.errors import ParameterError


def people(n: int, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    return pl.DataFrame(
        {
            "age": age,
            "income": np.round(np.exp(rng.normal(8, 0.4, n) + age / 90), 1),
            "city": rng.choice(["Bern", "Chur", "Genf"], n, p=[0.6, 0.3, 0.1]),
        }
    ).with_columns(income=pl.when(pl.col("age") % 11 > 0).then("income"))


def in_batches(frame: pl.DataFrame, rows: int = 70) -> Callable[[], Iterator[pl.DataFrame]]:
    return lambda: iter(frame.iter_slices(rows))


@pytest.mark.slow
def test_attacks_in_batches_find_what_they_find_in_memory() -> None:
    original, release = people(500), pl.concat([people(300, 1), people(500)[100:160]])
    found = audit_batches(
        in_batches(original), in_batches(release), random_state=1, attempts=500, memory=10_000
    ).result["attacks"]
    wanted = audit(original, release, random_state=2, attempts=500).result["attacks"]
    assert set(found) == set(wanted)  # every attack
    assert found["exact_copies"]["successes"] == wanted["exact_copies"]["successes"] >= 60
    for name in ("linkage", "inference:city", "inference:age"):
        assert found[name]["attempts"] == wanted[name]["attempts"]
        assert found[name]["successes"] == wanted[name]["successes"]


def test_noise_in_the_last_digits_is_found_where_hardly_any_record_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_batches, "HELD", 40)
    rng = np.random.default_rng(0)
    everybody = pl.DataFrame(rng.normal(size=(900, 6)))
    release = everybody[:600].select(pl.all() + pl.Series(rng.normal(size=600)) * 1e-6)
    report = audit_batches(
        in_batches(everybody[:600]), in_batches(release), everybody[600:], random_state=1
    )
    copies = report.result["attacks"]["near_copies"]
    assert copies["attempts"] == 600
    assert copies["rate"] > 0.99
    assert copies["control"] == 0
    assert report.verdict["privacy"]["level"] == "bad"
    assert "40 original records of 600 and 40 released ones of 600" in report.result["limits"][0]


def test_whole_people_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_batches, "HELD", 50)
    rows = pl.DataFrame({"who": np.arange(600) // 6, "x": np.arange(600)})
    some, count = _batches._drawn(in_batches(rows), "who", 3)
    assert count == 600
    assert 40 <= some.height <= 50
    assert set(some["who"].value_counts()["count"]) == {6}


@pytest.mark.slow
def test_a_control_is_attacked_as_well() -> None:
    original = people(400)
    report = audit_batches(
        in_batches(original), in_batches(original), people(100, 5), random_state=1
    )
    attacks = report.result["attacks"]
    assert attacks["exact_copies"]["rate"] == 1.0
    assert attacks["linkage"]["rate"] > 0.8
    assert attacks["linkage"]["control"] < 0.2
    assert attacks["membership"]["attempts"] > 0
    assert "samples" not in report.result["limits"][0]  # all were drawn
    assert report.verdict["privacy"]["level"] == "bad"


def test_few_copies_are_judged_by_their_number_in_batches_too() -> None:
    original, control, others = (people(400, seed).drop_nulls() for seed in (0, 5, 1))
    release = pl.concat([others, original.head(12)])
    report = audit_batches(in_batches(original), in_batches(release), control, random_state=1)
    copies = report.result["attacks"]["exact_copies"]
    assert copies["details"][BEYOND_CHANCE] == pytest.approx(12 / release.height)
    assert grade("exact_copies", copies, 5) == "notable"


def test_people_are_counted_once() -> None:
    table = people(200)
    twice = pl.concat([table, table]).with_columns(person=pl.Series([*range(200), *range(200)]))
    policy = {"person": "person"}
    found = audit_batches(
        in_batches(twice), in_batches(table.head(50)), policy=policy, random_state=1
    ).result["attacks"]
    assert found["exact_copies"]["attempts"] == 200
    assert found["exact_copies"]["successes"] >= 50


@pytest.mark.slow
def test_the_command_attacks_a_release_of_many_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("_memory", "audit"):
        monkeypatch.setattr(f"tulle._commands.{place}.needed", lambda source: float("inf"))
    budget = machine.Budget(10**9, 2, block=250, sample=500)
    monkeypatch.setattr(machine.Budget, "of", lambda *_: budget)
    source, release = tmp_path / "people.csv", tmp_path / "release.csv"
    people(1_000).write_csv(source)
    condense(source, release, k=5, seed=1, grouping="levels")
    assert release.is_dir()
    report = tmp_path / "audit.json"
    done = CliRunner().invoke(
        tulle, ["audit", str(source), str(release), "-o", str(report), "--seed", "1", "--json"]
    )
    assert done.exit_code == 0, done.output
    text = report.read_text()
    assert "1,000 original records of 1,000 and 1,000 released ones of 1,000, by lot" in text
    found = audit_files(source, release, earlier=[release], seed=1)
    assert "earlier_totals" in found.result["attacks"]
    with pytest.raises(ParameterError, match="singling"):
        audit_files(source, release, max_singling_out=0.1)


@pytest.mark.slow
def test_a_release_of_many_parts_is_also_audited_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "release.csv"
    folder.mkdir()
    people(300, 1).head(100).write_csv(folder / "part-00000.csv")
    people(300, 1).tail(200).write_csv(folder / "part-00001.csv")
    people(300).write_csv(tmp_path / "people.csv")
    found = audit_files(tmp_path / "people.csv", folder, seed=1)
    assert found.result["compared"] == 300
