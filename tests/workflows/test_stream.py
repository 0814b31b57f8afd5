"""``tulle stream`` from files, folders and pipes: nothing lost, nothing doubled, nothing leaked."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tulle import SecretKey
from tulle.cli import tulle
from tulle.errors import DataError, KeyMaterialError, ParameterError, PrivacyError, TulleError
from tulle.files import OutputExists
from tulle.releases import read_manifest, verify_release
from tulle.workflows.stream import run as running
from tulle.workflows.stream import stream

OPTIONS: dict[str, Any] = {"k": 4, "init": 60, "levels": "level", "seed": 1}


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    made = [
        {
            "age": int(rng.integers(18, 90)),
            "income": round(float(rng.lognormal(10, 1)), 2),
            "city": str(rng.choice(["Bern", "Chur", "Sion"])),
            "level": int(rng.integers(3, 7)),
            "kind": str(rng.choice(["a", "b"])),
        }
        for _ in range(count)
    ]
    if count > 150:
        made[150]["level"] = 50  # waits
    return made


def write_ndjson(path: Path, records: list[dict[str, Any]], mode: str = "w") -> Path:
    with path.open(mode) as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


def write_csv(path: Path, records: list[dict[str, Any]]) -> Path:
    lines = [",".join(records[0])] + [",".join(map(str, r.values())) for r in records]
    path.write_text("\n".join(lines) + "\n")
    return path


def groups(state: Path) -> dict[str, np.ndarray]:
    """What is in the state of the groups; families depend on when snapshots were taken."""
    with np.load(state) as arrays:
        names = [n for n in arrays.files if ".groups." in n and not n.endswith("families")]
        return {name: arrays[name] for name in names}


def same_groups(one: Path, two: Path) -> None:
    first, second = groups(one), groups(two)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


def test_csv_and_ndjson_files_give_the_same_groups(tmp_path: Path) -> None:
    made = rows(300)
    results = []
    for source in (
        write_csv(tmp_path / "in.csv", made),
        write_ndjson(tmp_path / "in.ndjson", made),
    ):
        folder = tmp_path / source.suffix[1:]
        results.append(stream(str(source), folder, state=tmp_path / f"{source.name}.st", **OPTIONS))
        assert read_manifest(folder / "snapshot-000001.parquet").counts["seen"] == 300
    assert results[0].summary["condensed"] == results[1].summary["condensed"]
    assert results[0].summary["waiting"] == 1
    assert "1 records wait" in " ".join(results[0].notes)
    same_groups(tmp_path / "in.csv.st", tmp_path / "in.ndjson.st")


def test_snapshots_come_with_verified_manifests(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(500))
    done = stream(
        str(source), tmp_path / "out", state=tmp_path / "st", every=200, target="kind", **OPTIONS
    )
    assert [told["seen"] for told in done.snapshots] == [200, 400, 500]
    for told in done.snapshots:
        path = tmp_path / "out" / told["snapshot"]
        assert all(row["holds"] for row in verify_release(path))
        manifest = read_manifest(path)
        assert manifest.counts["seen"] == told["seen"]
        assert manifest.verified["seen = condensed + waiting"] is True
        table = pl.read_parquet(path)
        assert table.columns == ["age", "income", "city", "kind"]
        assert table.height == told["released"]
        held = told["held back"]
        assert manifest.counts["condensed"] == table.height + held
        fewest = told["fewest newcomers"]
        assert fewest is None or fewest >= 3


def test_malformed_records_are_listed_without_their_values(tmp_path: Path) -> None:
    made = rows(200)
    lines = [json.dumps(row) for row in made]
    lines[100:100] = [
        "{broken SECRET",
        json.dumps({**made[0], "age": "SECRET"}),
        json.dumps({**made[0], "city": "SECRET"}),
        json.dumps({**made[0], "level": 0}),
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
    assert sorted(entry["line"] for entry in entries) == [*range(101, 107), 108, 109, 210]
    assert done.summary["rejected"] == len(entries) == 9
    assert done.summary["seen"] == 200
    assert done.summary["read"] == 209
    assert any("not UTF-8" in entry["reason"] for entry in entries)
    assert any("column 'age' is no integer" in entry["reason"] for entry in entries)


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
    done = stream(str(source), tmp_path / "out", state=tmp_path / "st", k=4, init=60)
    table = pl.read_parquet(tmp_path / "out" / "snapshot-000001.parquet")
    assert table.schema == {
        "when": pl.Date,
        "town": pl.String,
        "true": pl.Boolean,
        "n": pl.Float64,
    }
    assert set(table["town"]) <= {"a;0", "a;1", "a;2"}
    assert done.summary["rejected"] == 3


def test_a_growing_file_is_followed_until_asked_to_stop(tmp_path: Path) -> None:
    made = rows(300)
    source = write_ndjson(tmp_path / "in.ndjson", made[:100])

    def grow() -> None:
        for start in range(100, 300, 50):
            time.sleep(0.1)
            write_ndjson(source, made[start : start + 50], "a")
        with source.open("a") as file:
            file.write('{"age": 1')  # half a line: not a record yet
        for _ in range(200):
            time.sleep(0.05)
            if (tmp_path / "st").exists() and groups(tmp_path / "st")[
                "0.groups.counts"
            ].sum() > 298:
                break
        os.kill(os.getpid(), signal.SIGTERM)

    grower = threading.Thread(target=grow)
    grower.start()
    done = stream(
        str(source), tmp_path / "out", state=tmp_path / "st", follow=True, checkpoint=0.0, **OPTIONS
    )
    grower.join()
    assert (done.summary["seen"], done.summary["rejected"]) == (300, 0)
    whole = write_ndjson(tmp_path / "whole.ndjson", made)
    stream(str(whole), tmp_path / "out2", state=tmp_path / "st2", **OPTIONS)
    same_groups(tmp_path / "st", tmp_path / "st2")


def test_a_folder_of_arriving_files(tmp_path: Path) -> None:
    made, folder = rows(300), tmp_path / "in"
    folder.mkdir()
    write_csv(folder / "1.csv", made[:120])
    write_csv(folder / "3.csv.part", made[200:])
    options = {**OPTIONS, "state": tmp_path / "st"}
    first = stream(str(folder), tmp_path / "out", **options)
    assert first.summary["seen"] == 120
    write_csv(folder / "2.csv", made[120:200])
    os.rename(folder / "3.csv.part", folder / "3.csv")
    second = stream(str(folder), tmp_path / "out", **options)
    assert (second.summary["seen"], second.summary["resumed_after"]) == (300, 120)
    whole = write_csv(tmp_path / "whole.csv", made)
    stream(str(whole), tmp_path / "out2", **{**options, "state": tmp_path / "st2"})
    same_groups(tmp_path / "st", tmp_path / "st2")
    (folder / "4.csv").write_text("other,columns\n1,2\n")
    with pytest.raises(DataError, match=r"4\.csv has other columns"):
        stream(str(folder), tmp_path / "out", **options)


def test_empty_files_and_byte_order_marks_do_not_stop_a_folder(tmp_path: Path) -> None:
    made, folder = rows(300), tmp_path / "in"
    folder.mkdir()
    (folder / "0.csv").touch()
    write_csv(folder / "1.csv", made[:150])
    (folder / "2.csv").touch()
    marked = write_csv(folder / "3.csv", made[150:])
    marked.write_bytes(b"\xef\xbb\xbf" + marked.read_bytes())
    done = stream(str(folder), tmp_path / "out", state=tmp_path / "st", **OPTIONS)
    assert (done.summary["seen"], done.summary["rejected"]) == (300, 0)


def test_what_cannot_begin_leaves_no_folder(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "in.csv", rows(300))
    with pytest.raises(ValueError, match="no column 'nope'"):
        stream(
            str(source), tmp_path / "out", state=tmp_path / "st", **{**OPTIONS, "levels": "nope"}
        )
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "st").exists()


@pytest.mark.parametrize("waiting", ["read again", "sealed", "plain"])
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
        names = arrays.files
    assert ("sealed" in names) == (waiting == "sealed")
    assert any(name.endswith(".waiting") for name in names) == (waiting == "plain")
    if waiting == "sealed":
        with pytest.raises(KeyMaterialError, match="another key"):
            stream(str(source), tmp_path / "out", **{**options, "key": SecretKey.generate()})


def test_standard_input_replayed_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rows(300)

    def piped(records: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        text = "".join(json.dumps(record) + "\n" for record in records)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        options = {**OPTIONS, "state": tmp_path / "st", "kind": "ndjson", **more}
        return stream("-", tmp_path / "out", **options).summary

    assert piped(made[:200])["seen"] == 200
    with pytest.raises(TulleError, match="--restart"):
        piped(made)
    assert piped(made, restart="replayed")["seen"] == 300
    whole = write_ndjson(tmp_path / "whole.ndjson", made)
    stream(str(whole), tmp_path / "out2", state=tmp_path / "st2", **OPTIONS)
    same_groups(tmp_path / "st", tmp_path / "st2")
    # the record that waits is neither in the state nor in the new lines
    with pytest.raises(DataError, match="--key"):
        piped(made[:5], restart="continued")
    with pytest.raises(DataError, match="ends before"):
        piped(made[:5], restart="replayed")
    key = SecretKey.generate()
    options = {"state": tmp_path / "st3", "key": key, "force": True}
    assert piped(made[:200], **options)["waiting"] == 1
    assert piped(made[200:], **options, restart="continued")["seen"] == 300
    same_groups(tmp_path / "st3", tmp_path / "st2")


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
    wrong = CliRunner().invoke(tulle, [*arguments, "--split", "sometimes"])
    assert wrong.exit_code == 2


@pytest.mark.parametrize(("snapshots", "safe"), [("bounded", True), ("all", False)])
def test_report_measures_what_two_snapshots_tell(
    snapshots: str, safe: bool, tmp_path: Path
) -> None:
    made = [{name: row[name] for name in ("age", "income", "city")} for row in rows(400)]
    source = write_ndjson(tmp_path / "in.ndjson", made)
    stream(
        str(source),
        tmp_path / "out",
        state=tmp_path / "st",
        report=tmp_path / "report.json",
        k=8,
        init=100,
        synthesis="mean",
        snapshots=snapshots,
        seed=0,
    )
    told = json.loads((tmp_path / "report.json").read_text())
    assert {"snapshots_totals", "snapshots_fresh_rows"} == set(told["attacks"])
    found = told["attacks"]["snapshots_totals"]["rate"]
    assert found < 0.25 if safe else found > 0.9
    assert [section["id"] for section in told["sections"]] == [
        "intersection",
        "snapshots",
        "history",
    ]
    with pytest.raises(OutputExists):
        stream(
            str(source), tmp_path / "out", state=tmp_path / "st", report=tmp_path / "report.json"
        )


def test_a_second_process_is_kept_away(tmp_path: Path) -> None:
    from tulle.workflows.stream.checkpoints import locked

    source = write_ndjson(tmp_path / "in.ndjson", rows(100))
    with locked(tmp_path / "st"), pytest.raises(TulleError, match="another tulle stream"):
        stream(str(source), tmp_path / "out", state=tmp_path / "st", **OPTIONS)


def test_what_cannot_go_on_is_refused(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    options = {**OPTIONS, "state": tmp_path / "st"}
    stream(str(source), tmp_path / "out", **options)
    with pytest.raises(ParameterError, match="began with k=4"):
        stream(str(source), tmp_path / "out", **{**options, "k": 5})
    with pytest.raises(ParameterError, match="as its target"):
        stream(str(source), tmp_path / "out", **options, target="kind")
    with pytest.raises(OutputExists, match="snapshots already"):
        stream(str(source), tmp_path / "out", **{**options, "state": tmp_path / "new"})
    write_ndjson(source, rows(10))
    with pytest.raises(DataError, match="another file"):
        stream(str(source), tmp_path / "out", **options)
    content = (tmp_path / "st").read_bytes()
    (tmp_path / "st").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="damaged"):
        stream(str(source), tmp_path / "out", **options)


def test_too_few_records_write_nothing(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(2))
    with pytest.raises((PrivacyError, DataError)):
        stream(str(source), tmp_path / "out", state=tmp_path / "st", k=10)
    (tmp_path / "empty.ndjson").write_text("")
    with pytest.raises(DataError, match="no record"):
        stream(str(tmp_path / "empty.ndjson"), tmp_path / "out", state=tmp_path / "st")
    assert not (tmp_path / "st").exists()
    assert not (tmp_path / "out").exists()


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
