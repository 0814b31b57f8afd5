"""``tulle stream``: what comes out, what is refused line by line, and what a report says."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tests.reference.streams import OPTIONS, rows, same_groups, write_csv, write_ndjson
from tulle import SecretKey
from tulle._commands import stream as running
from tulle._commands._decision import Refused
from tulle._commands.stream import stream
from tulle.cli import tulle
from tulle.errors import KeyMaterialError, OutputExists
from tulle.releases import read_manifest, verify_release

pytestmark = pytest.mark.slow


def test_csv_and_ndjson_files_give_the_same_groups(tmp_path: Path) -> None:
    made = rows(300)
    results = []
    for source in (
        write_csv(tmp_path / "in.csv", made),
        write_ndjson(tmp_path / "in.ndjson", made),
    ):
        folder = tmp_path / source.suffix[1:]
        results.append(stream(str(source), folder, state=tmp_path / f"{source.name}.st", **OPTIONS))
        assert results[-1].summary["seen"] == 300
    assert results[0].summary["condensed"] == results[1].summary["condensed"]
    assert results[0].summary["waiting"] == 1
    assert "1 record" in " ".join(results[0].notes)
    same_groups(tmp_path / "in.csv.st", tmp_path / "in.ndjson.st")


def test_snapshots_come_with_verified_manifests(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(500))
    done = stream(
        str(source), tmp_path / "out", state=tmp_path / "st", every=200, target="kind", **OPTIONS
    )
    assert [told["seen"] for told in done.tables["releases"]] == [200, 400, 500]
    for told in done.tables["releases"]:
        path = tmp_path / "out" / told["snapshot"]
        assert all(row["holds"] for row in verify_release(path))
        manifest = read_manifest(path)
        assert not {"seen", "waiting", "rejected"} & manifest.counts.keys()  # the owner's
        assert manifest.verified["seen = condensed + waiting"] is True
        table = pl.read_parquet(path)
        assert table.columns == ["age", "income", "city", "kind"]
        assert table.height == told["released"]
        fewest = told["fewest_newcomers"]
        assert fewest is None or fewest >= 3


@pytest.mark.parametrize("policy", ["bounded", "all"])
def test_snapshots_have_no_more_rows_than_asked_for(policy: str, tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(500))
    done = stream(
        str(source),
        tmp_path / "out",
        state=tmp_path / "st",
        every=100,
        rows=250,
        snapshots=policy,
        target="kind",
        **OPTIONS,
    )
    assert [told["released"] for told in done.tables["releases"]][-2:] == [250, 250]
    assert done.tables["releases"][0]["released"] == 100
    path = tmp_path / "out" / done.tables["releases"][-1]["snapshot"]
    assert pl.read_parquet(path).height == read_manifest(path).counts["released"] == 250
    assert all(row["holds"] for row in verify_release(path))


def test_malformed_records_are_listed_without_their_values(tmp_path: Path) -> None:
    made = rows(200)
    lines = [json.dumps(row) for row in made]
    lines[100:100] = [
        "{broken SECRET",
        json.dumps({**made[0], "age": "SECRET"}),
        json.dumps({**made[0], "city": ["SECRET"]}),
        json.dumps({**made[0], "level": 0}),
        json.dumps({**made[0], "level": 2**53 + 2}),
        json.dumps({**made[0], "income": 1e400}).replace("Infinity", "1e400"),
        '"SECRET"',
        "",
        json.dumps({"age": 40}),
        "x" * (1 << 20) + "SECRET",
    ]
    source = tmp_path / "in.ndjson"
    source.write_bytes("\n".join(lines).encode() + b"\n\xff\xfe SECRET\n")
    done = stream(str(source), tmp_path / "out", state=tmp_path / "st", **OPTIONS)
    listed = (tmp_path / "st.rejects.ndjson").read_text()
    entries = [json.loads(line) for line in listed.splitlines()]
    assert "SECRET" not in listed
    assert sorted(entry["line"] for entry in entries) == [*range(101, 108), 109, 110, 211]
    assert done.summary["rejected"] == len(entries) == 10
    assert done.summary["seen"] == 200
    assert done.summary["read"] == 210
    assert any("not UTF-8" in entry["reason"] for entry in entries)
    assert any("column 'age' is not of type integer" in entry["reason"] for entry in entries)
    assert any("column 'city' is not of type text" in entry["reason"] for entry in entries)
    assert not any("encoder" in entry["reason"] for entry in entries)


@pytest.mark.parametrize("declared", [False, True])
def test_a_decimal_comma_is_read_where_fields_end_with_semicolons(
    declared: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    lines = ["cost;age"] + [f"{rng.normal():.2f}".replace(".", ",") + ";4" for _ in range(120)]
    (tmp_path / "in.csv").write_text("\n".join([*lines[:100], "x;4", *lines[100:]]) + "\n")
    policy = '[columns.cost]\nkind = "decimal"\nrole = "sensitive"\n'
    policy += '[columns.age]\nkind = "integer"\nrole = "quasi-identifier"\n'
    (tmp_path / "policy.toml").write_text(policy)
    done = stream(
        str(tmp_path / "in.csv"),
        tmp_path / "out",
        state=tmp_path / "st",
        k=4,
        init=60,
        policy=tmp_path / "policy.toml" if declared else None,
    )
    assert (done.summary["seen"], done.summary["rejected"]) == (120, 1)
    table = pl.read_parquet(tmp_path / "out" / "snapshot-000001.parquet")
    assert table.schema["cost"] == pl.Float64
    again = stream(str(tmp_path / "in.csv"), tmp_path / "out", state=tmp_path / "st")
    assert again.summary["seen"] == 120


def test_csv_quotes_widths_dates_and_truth(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["when;town;true;n"]
    lines += [
        f'2024-0{rng.integers(1, 10)}-1{rng.integers(0, 10)};"a;{rng.integers(3)}";'
        f"{bool(rng.integers(2))};{rng.normal():.3f}"
        for _ in range(120)
    ]
    lines += ['2024-01-01;"a;1;true;1', "2024-01-01;a", 'never;"a;1";true;1', ""]
    source = tmp_path / "in.csv"
    source.write_text("\n".join(lines) + "\n")
    stream(str(source), tmp_path / "out", state=tmp_path / "st", k=4, init=60)
    table = pl.read_parquet(tmp_path / "out" / "snapshot-000001.parquet")
    assert table.schema == {"when": pl.Date, "town": pl.String, "true": pl.Boolean, "n": pl.Float64}
    assert set(table["town"]) <= {"a;0", "a;1", "a;2"}
    listed = (tmp_path / "st.rejects.ndjson").read_text().splitlines()
    # the quote of line 122 is open until line 124 contradicts it
    assert [json.loads(entry)["line"] for entry in listed] == [122, 124]


@pytest.mark.parametrize("waiting", ["sealed next to it", "sealed", "plain"])
def test_stopping_anywhere_and_going_on_gives_the_same_groups(
    waiting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "BATCH", 20)
    made = rows(300)
    source = tmp_path / "in.ndjson"
    options = {**OPTIONS, "state": tmp_path / "st", "target": "kind"}
    if waiting == "sealed":
        options["key"] = SecretKey.generate()
    options["plain_waiting"] = waiting == "plain"
    for stop in (100, 155, 240, 300):
        write_ndjson(source, made[:stop])
        done = stream(str(source), tmp_path / "out", **options)
        assert done.summary["seen"] == stop
    write_ndjson(tmp_path / "whole.ndjson", made)
    stream(
        str(tmp_path / "whole.ndjson"), tmp_path / "out2", **{**options, "state": tmp_path / "st2"}
    )
    assert done.summary["waiting"] == 1
    same_groups(tmp_path / "st", tmp_path / "st2")
    # the raw value of the record that waits is on disk only if the user said so
    with np.load(tmp_path / "st") as arrays:
        assert "private" in arrays.files
        assert json.loads(arrays["header.json"])["sealed"] == (waiting != "plain")
    assert (tmp_path / "st.key").exists() == (waiting == "sealed next to it")
    if waiting != "plain":
        with pytest.raises(KeyMaterialError):
            stream(str(source), tmp_path / "out", **{**options, "key": SecretKey.generate()})
    if waiting == "sealed":
        with pytest.raises(KeyMaterialError, match="--key"):
            stream(str(source), tmp_path / "out", **{**options, "key": None})


def test_command_line_prints_a_summary_and_ends_with_codes(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(200))
    arguments = [
        "stream",
        str(source),
        "-o",
        str(tmp_path / "out"),
        "--state",
        str(tmp_path / "st"),
    ]
    arguments += ["--levels", "level", "--k", "4", "--init", "60", "--json"]
    result = CliRunner().invoke(tulle, arguments)
    assert result.exit_code == 0
    told = json.loads(result.output)
    assert (told["seen"], told["waiting"], told["snapshots"]) == (200, 1, 1)
    assert told["releases"][0]["snapshot"] == "snapshot-000001.parquet"
    assert all(name.isidentifier() for name in [*told, *told["releases"][0]])
    wrong = CliRunner().invoke(tulle, [*arguments, "--split", "sometimes"])
    assert wrong.exit_code == 2


@pytest.mark.parametrize(("snapshots", "safe"), [("bounded", True), ("all", False)])
def test_report_measures_what_two_snapshots_tell(
    snapshots: str, safe: bool, tmp_path: Path
) -> None:
    made = [{name: row[name] for name in ("age", "income", "city")} for row in rows(400)]
    source = write_ndjson(tmp_path / "in.ndjson", made)
    asked = {"k": 8, "init": 100, "synthesis": "mean", "snapshots": snapshots, "seed": 0}
    with nullcontext() if safe else pytest.raises(Refused, match="do not send them"):
        stream(
            str(source),
            tmp_path / "out",
            state=tmp_path / "st",
            report=tmp_path / "report.json",
            **asked,
        )
    told = json.loads((tmp_path / "report.json").read_text())
    assert {"snapshots_totals", "snapshots_fresh_rows", "membership"} <= set(told["attacks"])
    found = told["attacks"]["snapshots_totals"]["rate"]
    assert found < 0.25 if safe else found > 0.9
    sections = [section["id"] for section in told["sections"]]
    assert sections[:3] == ["intersection", "snapshots", "history"]
    with pytest.raises(OutputExists):  # another stream's
        stream(
            str(source), tmp_path / "out2", state=tmp_path / "st2", report=tmp_path / "report.json"
        )


def test_policy_gives_roles_and_options(tmp_path: Path) -> None:
    made = [{"name": f"person {place}", **row} for place, row in enumerate(rows(200))]
    source = write_ndjson(tmp_path / "in.ndjson", made)
    columns = {
        "name": ("text", "identifier"),
        "age": ("integer", "quasi-identifier"),
        "income": ("decimal", "sensitive"),
        "city": ("category", "quasi-identifier"),
        "level": ("integer", "level"),
        "kind": ("category", "target"),
    }
    text = "".join(
        f'[columns.{name}]\nkind = "{kind}"\nrole = "{role}"\n'
        for name, (kind, role) in columns.items()
    )
    (tmp_path / "policy.toml").write_text(text + "[stream]\nk = 4\ninit = 60\nsplit = 'strict'\n")
    done = stream(
        str(source), tmp_path / "out", state=tmp_path / "st", policy=tmp_path / "policy.toml"
    )
    table = pl.read_parquet(tmp_path / "out" / "snapshot-000001.parquet")
    assert table.columns == ["age", "income", "city", "kind"]
    assert done.summary["smallest_group"] >= 3
    assert read_manifest(tmp_path / "out" / "snapshot-000001.parquet").parameters["split"] == (
        "strict"
    )


def test_a_report_says_how_it_was_made_and_what_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(200))
    with source.open("a") as file:
        file.write("{broken\n")
    words = ["stream", str(source), "-o", str(tmp_path / "out"), "--state", str(tmp_path / "st")]
    words += ["--report", str(tmp_path / "report.md"), "--init", "60", "--seed", "7"]
    monkeypatch.setattr("sys.argv", ["tulle", *words])
    assert CliRunner().invoke(tulle, words).exit_code == 0
    told = (tmp_path / "report.md").read_text()
    assert "1 malformed line was refused" in told
    assert "| Successive snapshots, totals |" in told
    assert "fewest newcomers" in told
    assert f"tulle stream {source}" in told
    assert "--seed ..." in told
