"""What real feeds do to ``tulle stream``: late categories, renamed keys, other orders, gzip."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from tests.reference.streams import OPTIONS, rows, same_groups, write_csv, write_ndjson
from tulle._commands.stream import status, stream
from tulle.cli import tulle
from tulle.errors import DataError, TulleError

pytestmark = pytest.mark.slow

POLICY = """
[columns.age]
kind = "integer"
role = "quasi-identifier"
[columns.income]
kind = "decimal"
role = "quasi-identifier"
[columns.city]
kind = "category"
role = "quasi-identifier"
{city}
[columns.level]
kind = "integer"
role = "level"
[columns.kind]
kind = "category"
role = "quasi-identifier"
"""


def moved(count: int, city: str, seed: int = 5) -> list[dict[str, Any]]:
    return [row | {"city": city, "level": 4} for row in rows(count, seed)]


def started(tmp_path: Path, **options: Any) -> dict[str, Any]:
    """Has condensed 150 records; returns how it goes on."""
    write_ndjson(tmp_path / "v.ndjson", rows(150))
    options = {**OPTIONS, "state": tmp_path / "st", **options}
    stream(str(tmp_path / "v.ndjson"), tmp_path / "out", **options)
    return options


def test_a_category_that_comes_late_waits_across_runs(tmp_path: Path) -> None:
    options = started(tmp_path)
    for count, waiting in ((3, 3), (1, 0)):  # of level 4: the fourth makes it a category
        write_ndjson(tmp_path / "v.ndjson", moved(count, "Genf", count), mode="a")
        done = stream(str(tmp_path / "v.ndjson"), tmp_path / "out", **options)
        assert (done.summary["waiting"], done.summary["rejected"]) == (waiting, 0)
    whole = write_ndjson(tmp_path / "w.ndjson", rows(150) + moved(3, "Genf", 3))
    write_ndjson(whole, moved(1, "Genf", 1), mode="a")
    stream(str(whole), tmp_path / "other", **{**options, "state": tmp_path / "st2"})
    same_groups(tmp_path / "st", tmp_path / "st2")


@pytest.mark.parametrize(
    ("city", "rejected", "waiting"),
    [
        ('on_new = "reject"', 4, 0),
        ('on_new = "other"', 0, 0),
        ('categories = ["Bern", "Chur", "Sion", "Genf"]', 1, 3),
    ],
)
def test_the_policy_says_what_happens_to_new_categories(
    city: str, rejected: int, waiting: int, tmp_path: Path
) -> None:
    (tmp_path / "p.toml").write_text(POLICY.format(city=city))
    options = {name: value for name, value in OPTIONS.items() if name != "levels"}
    late = [*moved(3, "Genf"), *moved(1, "Gend")]
    write_ndjson(tmp_path / "v.ndjson", rows(150) + late)
    done = stream(
        str(tmp_path / "v.ndjson"),
        tmp_path / "out",
        **{**options, "levels": None, "state": tmp_path / "st", "policy": tmp_path / "p.toml"},
    )
    assert (done.summary["rejected"], done.summary["waiting"]) == (rejected, waiting)


def test_a_renamed_key_is_reported_or_stops_the_stream(tmp_path: Path) -> None:
    known = [row | {"income": None} if at % 9 == 0 else row for at, row in enumerate(rows(150))]
    renamed = [{"pay" if n == "income" else n: v for n, v in r.items()} for r in rows(30, 3)]
    write_ndjson(tmp_path / "v.ndjson", known)
    options = {**OPTIONS, "state": tmp_path / "st"}
    stream(str(tmp_path / "v.ndjson"), tmp_path / "out", **options)
    write_ndjson(tmp_path / "v.ndjson", renamed, mode="a")
    with pytest.raises(DataError, match="30 records lack 'income'"):
        stream(str(tmp_path / "v.ndjson"), tmp_path / "out", **options, strict_keys=True)
    assert status(tmp_path / "st")["seen"] == 150
    done = stream(str(tmp_path / "v.ndjson"), tmp_path / "out", **options)
    assert (done.summary["seen"], done.summary["lacking_keys"]) == (180, 30)
    assert any("'income'" in note and "count as missing" in note for note in done.notes)


def test_records_without_a_key_that_none_may_miss_are_refused_and_that_is_said(
    tmp_path: Path,
) -> None:
    renamed = [{"pay" if n == "income" else n: v for n, v in r.items()} for r in rows(30, 3)]
    write_ndjson(tmp_path / "v.ndjson", rows(150))
    options = {**OPTIONS, "state": tmp_path / "st"}
    stream(str(tmp_path / "v.ndjson"), tmp_path / "out", **options)
    write_ndjson(tmp_path / "v.ndjson", renamed, mode="a")
    done = stream(str(tmp_path / "v.ndjson"), tmp_path / "out", **options)
    assert (done.summary["seen"], done.summary["rejected"]) == (150, 30)
    note = next(note for note in done.notes if "'income'" in note)
    assert "30 records lack" in note
    assert "All of them were refused" in note
    assert not any("count as missing" in note for note in done.notes)
    refused = (tmp_path / "st.rejects.ndjson").read_text()
    assert refused.count("no key 'income'") == 30


def test_objects_inside_of_records_become_columns_with_dots(tmp_path: Path) -> None:
    made = [
        {"home": {"city": r["city"], "at": {"x": r["income"]}}, "age": r["age"], "old": None}
        for r in rows(200)
    ]
    made[50]["home"] = None  # type: ignore[assignment]
    write_ndjson(tmp_path / "v.ndjson", made)
    done = stream(str(tmp_path / "v.ndjson"), tmp_path / "out", state=tmp_path / "st", init=60, k=4)
    assert (done.summary["seen"], done.summary["surplus_keys"]) == (200, 0)
    shown = pl.read_parquet(tmp_path / "out" / "snapshot-000001.parquet")
    assert shown.columns[:3] == ["home.city", "home.at.x", "age"]


def test_columns_of_a_folder_are_matched_by_name(tmp_path: Path) -> None:
    made = rows(300)
    turned = [dict(reversed(row.items())) for row in made]
    (tmp_path / "in").mkdir()
    (tmp_path / "same").mkdir()
    write_csv(tmp_path / "in" / "1.csv", made[:100])
    write_csv(tmp_path / "in" / "2.csv", turned[100:200])
    write_csv(tmp_path / "in" / "3.csv", [row | {"extra": 1} for row in made[200:]])
    write_csv(tmp_path / "in" / "4.csv", made[200:])
    for part in range(3):
        write_csv(tmp_path / "same" / f"{part}.csv", made[100 * part : 100 * part + 100])
    for folder in ("in", "same"):
        options = {**OPTIONS, "state": tmp_path / f"{folder}.state"}
        done = stream(str(tmp_path / folder), tmp_path / f"{folder}.out", **options)
        assert (done.summary["seen"], done.summary["rejected"]) == (300, 0)
        assert any("3.csv" in note for note in done.notes) == (folder == "in")
    same_groups(tmp_path / "in.state", tmp_path / "same.state")
    write_csv(tmp_path / "in" / "3.csv", rows(50, 9))  # now it is like the others
    options = {**OPTIONS, "state": tmp_path / "in.state"}
    assert stream(str(tmp_path / "in"), tmp_path / "in.out", **options).summary["seen"] == 350


def test_compressed_files_are_read_and_resumed(tmp_path: Path) -> None:
    made = rows(300)
    plain = write_csv(tmp_path / "plain.csv", made)
    (tmp_path / "in").mkdir()
    for part in range(2):
        path = write_csv(tmp_path / "part.csv", made[150 * part : 150 * part + 150])
        with gzip.open(tmp_path / "in" / f"{part}.csv.gz", "wb") as file:
            file.write(path.read_bytes())
        options = {**OPTIONS, "state": tmp_path / "in.state"}
        done = stream(str(tmp_path / "in"), tmp_path / "out", **options)
        assert done.summary["seen"] == 150 * (part + 1)
    with gzip.open(tmp_path / "one.csv.gz", "wb") as file:
        file.write(plain.read_bytes())
    for name in ("plain.csv", "one.csv.gz"):
        options = {**OPTIONS, "state": tmp_path / f"{name}.state"}
        stream(str(tmp_path / name), tmp_path / f"{name}.out", **options)
        assert (
            stream(str(tmp_path / name), tmp_path / f"{name}.out", **options).summary["seen"] == 300
        )
        same_groups(tmp_path / "in.state", tmp_path / f"{name}.state")
    with pytest.raises(TulleError, match="follow"):
        stream(str(tmp_path / "one.csv.gz"), tmp_path / "f", **{**options, "follow": True})
    (tmp_path / "in" / "2.csv.gz").write_bytes((tmp_path / "one.csv.gz").read_bytes()[:-200])
    with pytest.raises(DataError, match=r"2\.csv\.gz"):
        stream(
            str(tmp_path / "in"), tmp_path / "out", **{**OPTIONS, "state": tmp_path / "in.state"}
        )


def test_too_many_refused_lines_stop_the_stream(tmp_path: Path) -> None:
    options = started(tmp_path, max_rejects=0.05)
    good = [json.dumps(row) for row in rows(1_500, 2)]
    with (tmp_path / "v.ndjson").open("a") as file:
        file.writelines(
            ("{no JSON" if at % 10 == 0 else line) + "\n" for at, line in enumerate(good)
        )
    with pytest.raises(DataError, match=r"--max-rejects 5\.0%"):
        stream(str(tmp_path / "v.ndjson"), tmp_path / "out", **options)
    assert status(tmp_path / "st")["seen"] == 1_500
    again = stream(str(tmp_path / "v.ndjson"), tmp_path / "out", **options)
    assert again.summary["seen"] == 1_500


def test_snapshots_in_csv_status_and_metrics(tmp_path: Path) -> None:
    options = started(tmp_path, snapshot_format="csv", metrics=tmp_path / "m.prom", every=50)
    assert sorted(p.name for p in (tmp_path / "out").glob("*.csv")) == [
        f"snapshot-00000{number}.csv" for number in (1, 2, 3)
    ]
    lines = (tmp_path / "m.prom").read_text().splitlines()
    assert f'tulle_stream_seen_total{{state="{options["state"]}"}} 150' in lines
    result = CliRunner().invoke(tulle, ["stream", "--status", str(tmp_path / "st"), "--json"])
    found = json.loads(result.stdout)
    assert (found["seen"], found["snapshots"], found["running"]) == (150, 3, False)
    assert CliRunner().invoke(tulle, ["stream", "--status", str(tmp_path / "no")]).exit_code != 0


def test_a_folder_that_is_missing_or_empty(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        stream(str(tmp_path / "no"), tmp_path / "out", state=tmp_path / "st")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no file"):
        stream(str(tmp_path / "empty"), tmp_path / "out", state=tmp_path / "st")
