"""Commands write CSV as their input is written, or plainly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tulle._commands.audit import audit_files
from tulle._commands.baseline import baseline
from tulle._commands.condense import condense
from tulle._commands.split import split_file
from tulle.io.read import read_table
from tulle.releases import read_manifest, verify_release
from tulle.table._date_format import write_dates

pytestmark = pytest.mark.slow

HEADER = "Geburt;Größe;Kosten;Zeit;PLZ;ok"


@pytest.fixture
def german(tmp_path: Path) -> Path:
    """A table as a German spreadsheet saves it."""
    rng = np.random.default_rng(3)
    rows = [
        f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.{rng.integers(1940, 2000)};"
        f"{rng.integers(150, 200)},{rng.integers(10)};"
        f"1.{rng.integers(100, 999)},50 €;{rng.integers(8, 18):02d}:{rng.integers(60):02d};"
        f"0{rng.integers(1, 9)}11;{'TRUE' if rng.random() < 0.4 else 'FALSE'}"
        for _ in range(300)
    ]
    path = tmp_path / "german.csv"
    path.write_bytes(("\r\n".join([HEADER, *rows]) + "\r\n").encode("cp1252"))
    return path


def first_lines(path: Path) -> list[str]:
    return path.read_bytes().decode("cp1252").split("\r\n")[:2]


@pytest.mark.parametrize("make", [condense, baseline])
def test_a_release_is_written_as_its_source_is(german: Path, tmp_path: Path, make: Any) -> None:
    release = tmp_path / "release.csv"
    options = {"audit": False} if make is condense else {"method": "randomize"}
    make(german, release, seed=1, accept_risk="a test", **options)
    header, record = first_lines(release)
    assert header == HEADER
    born, height, cost, clock, code, truth = record.split(";")
    assert (born[2], born[5], clock[2], code[0]) == (".", ".", ":", "0")
    assert "," in height
    assert cost.endswith(" €")
    assert truth in ("TRUE", "FALSE")
    assert read_table(release).schema == read_table(german).schema
    assert all(row["holds"] for row in verify_release(release))
    told = read_manifest(release).output["written as"]
    assert told["separator"] == ";"
    assert told["line ends"] == "CRLF"
    assert told["encoding"] == "cp1252"
    assert told["forms"]["Geburt"] == "%d.%m.%Y"


def test_plain_asks_for_the_normalised_form(german: Path, tmp_path: Path) -> None:
    release = tmp_path / "release.csv"
    condense(german, release, seed=1, audit=False, plain=True)
    header, record, *_ = release.read_text("utf-8").split("\n")
    assert header == HEADER.replace(";", ",")
    assert record[4] == record[7] == "-"
    assert "written as" not in read_manifest(release).output


def test_the_parts_of_a_split_are_the_lines_of_their_source(german: Path, tmp_path: Path) -> None:
    members, control = tmp_path / "members.csv", tmp_path / "control.csv"
    split_file(german, members, control=control, share=0.2, seed=1)
    header, *lines = german.read_bytes().split(b"\r\n")
    parts = [path.read_bytes().split(b"\r\n") for path in (members, control)]
    assert [part[0] for part in parts] == [header, header]
    assert sorted(parts[0][1:-1] + parts[1][1:-1]) == sorted(lines[:-1])


TIMES = {  # as a table of interviews may have them, and what of it must come back
    "clock": ("%H:%M", "(0[789]|1[0-9]|2[01]):[0-5][0-9]"),
    "clock12": ("%-I:%M %P", "(1[0-2]|[1-9]):[0-5][0-9] [ap]m"),
    "month": ("%Y-%m", "202[01]-[01][0-9]"),
    "week": ("%G-W%V", "202[01]-W[0-5][0-9]"),
    "quarter": ("%YQ%q", "202[01]Q[1-4]"),
    "stamp": (
        "%Y-%m-%dT%H:%M:%SZ",
        "202[01]-[01][0-9]-[0-3][0-9]T(0[789]|1[0-9]|2[0-2]):[0-5][0-9]:[0-5][0-9]Z",
    ),
    "local": ("%Y-%m-%d %H:%M Europe/Oslo", "202[01]-[01][0-9]-.. ..:.. Europe/Oslo"),
    "time": ("%s", "16[0-9]{8}"),
    "long": ("[h]:mm:ss", "[1-9][0-9]?:[0-5][0-9]:[0-5][0-9]"),
    "iso": ("PT1H30M", "PT[1-9][0-9]?H([1-5]?[0-9]M)?"),
}


def test_times_come_back_in_their_forms(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    hours = np.clip(rng.normal(14, 3, 400), 8, 21)
    seconds = 1_609_632_000 + rng.integers(0, 300, 400) * 86_400 + (hours * 3600).astype(int)
    moments = pl.Series(seconds * 10**6).cast(pl.Datetime("us"))
    lasted = pl.Series(rng.integers(60, 3000, 400) * 60 * 10**6).cast(pl.Duration("us"))
    long = {"long", "iso"}
    source, release = tmp_path / "times.csv", tmp_path / "release.csv"
    pl.DataFrame(
        {n: write_dates(lasted if n in long else moments, f) for n, (f, _) in TIMES.items()}
    ).write_csv(source, separator=";")
    condense(source, release, seed=1, audit=False)
    drawn = pl.read_csv(release, separator=";", infer_schema=False)
    assert drawn.columns == [*TIMES]
    for name, (_, pattern) in TIMES.items():
        assert drawn[name].str.contains(f"^{pattern}$").all(), name
    assert read_manifest(release).columns["week"]["kind"] == "datetime"


def test_an_audit_reads_a_release_as_it_is_written(german: Path, tmp_path: Path) -> None:
    release = tmp_path / "release.csv"
    condense(german, release, seed=1, audit=False)
    assert audit_files(german, release, seed=1).result["metrics"]
