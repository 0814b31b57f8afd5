from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tulle._commands import site_tables, site_union, sites
from tulle.errors import DataError
from tulle.releases import manifest_path

ONE = pl.DataFrame({"age": [34, 51, None], "illness": ["Flu", "Mumps", "Flu"], "ward": [1, 2, 3]})
TWO = pl.DataFrame({"age": [77, 18], "illness": ["Flu", None], "ward": [4, None]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ONE.write_csv("one.csv")
    TWO.write_csv("two.csv")
    for name in ("zero", "naught"):
        ONE.head(0).write_csv(f"{name}.csv")
    ONE.with_columns(pl.lit(None).alias(name) for name in ONE.columns).write_csv("blank.csv")
    for name in ("one", "two", "zero", "blank"):
        sites.summarise(f"{name}.csv", f"{name}.json")
    summaries = ["zero.json", "one.json", "two.json", "blank.json"]
    sites.agree("agreed", summaries=summaries, key_file="key", plain=("ward",))
    return tmp_path


def encode(source: str, output: str, **options: Any) -> None:
    site_tables.encode(source, output, agreement="agreed", key_file="key", **options)


def join(*sources: str, output: str = "union.parquet") -> pl.DataFrame:
    site_union.join(sources, output, force=True)
    sites.decode(
        output, "plain.parquet", agreement="agreed", key_file="key",
        values=["one.csv", "two.csv"], force=True,
    )  # fmt: skip
    return pl.read_parquet("plain.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_sites_without_records_or_values_join_like_others(folder: Path, kind: str) -> None:
    for name in ("one", "two", "zero", "naught", "blank"):
        encode(f"{name}.csv", f"{name}.codes.{kind}")
    codes = {name: f"{name}.codes.{kind}" for name in ("one", "two", "zero", "naught", "blank")}
    assert join(codes["zero"], codes["one"], codes["naught"], codes["two"]).equals(
        pl.concat([ONE, TWO])
    )
    assert join(codes["blank"], codes["one"]).tail(3).equals(ONE)
    assert join(codes["zero"], codes["naught"]).height == 0


def test_a_report_on_nothing_is_a_report(folder: Path) -> None:
    for name in ("zero", "blank"):
        encode(f"{name}.csv", f"{name}.parquet", report=f"{name}.html")
        assert "Codes of one site" in Path(f"{name}.html").read_text()
    encode("one.csv", "one.parquet", report="one.html", public="zero.csv")


@pytest.mark.parametrize("change", ["order", "format", "both"])
def test_the_same_records_are_noticed_however_they_were_kept(folder: Path, change: str) -> None:
    encode("one.csv", "one.parquet")
    other = ONE.reverse() if change in ("order", "both") else ONE
    source = "again.csv" if change == "order" else "again.parquet"
    other.write_csv(source) if change == "order" else other.write_parquet(source)
    encode(source, "again.codes.csv")
    with pytest.raises(DataError, match="twice"):
        join("one.parquet", "again.codes.csv")
    assert not Path("union.parquet").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"counts": {}}, "damaged"),
        ({"counts": {"records": "many"}}, "damaged"),
        ({"counts": {"records": 99}}, "3 records.*99"),
        ({"source": {}}, "damaged"),
        ({"columns": {"age": {}, "illness": {}, "ward": {}}}, "damaged"),
        ({"columns": {"age": 5}}, "damaged"),
    ],
)
def test_damaged_manifests_get_a_clear_word(
    folder: Path, changes: dict[str, Any], words: str
) -> None:
    encode("one.csv", "one.parquet")
    encode("two.csv", "two.parquet")
    manifest = json.loads(manifest_path("one.parquet").read_text())
    manifest_path("one.parquet").write_text(json.dumps({**manifest, **changes}))
    with pytest.raises(DataError, match=words):
        site_union.join(["one.parquet", "two.parquet"], "union.parquet")
    assert not Path("union.parquet").exists()


def test_codes_of_another_agreement_are_noticed_without_their_manifest(folder: Path) -> None:
    encode("one.csv", "one.parquet")
    encode("one.csv", "sqlite:///codes.db#one")
    sites.rotate("agreed", "newer", key_file="key")
    shutil.copy("one.parquet", "lost.parquet")
    for source in ("lost.parquet", "sqlite:///codes.db#one"):
        with pytest.raises(DataError, match="agreement"):
            sites.decode(source, "plain.csv", agreement="newer", key_file="key", keep_unknown=True)
    assert not Path("plain.csv").exists()


def test_plain_whole_numbers_of_any_width_keep_their_digits(folder: Path) -> None:
    for name, table, dtype in (("one", ONE, pl.Int64), ("two", TWO, pl.Int32)):
        table.with_columns(pl.col("ward").cast(dtype)).write_parquet(f"{name}.parquet")
        encode(f"{name}.parquet", f"{name}.codes.parquet")
    site_union.join(["one.codes.parquet", "two.codes.parquet"], "union.parquet")
    assert pl.read_parquet("union.parquet")["ward"].dtype == pl.Int64
