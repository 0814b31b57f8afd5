from __future__ import annotations

import json
import os
import shutil
import stat
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result

from tulle import SecretKey, SiteAgreement, SiteCodec
from tulle._commands import site_tables, site_union, sites
from tulle.cli import tulle
from tulle.errors import DataError, KeyMaterialError, ParameterError, TulleError
from tulle.releases import manifest_path, read_manifest

ONE = pl.DataFrame(
    {
        "age": [34, 51, None, 20],
        "illness": ["Flu", "Gastritis", "Flu", None],
        "smoker": [True, None, False, True],
        "email": ["a@x.org", "b@x.org", "c@x.org", "d@x.org"],
    }
)
TWO = pl.DataFrame(
    {
        "age": [77, 18],
        "illness": ["Mumps", "Flu"],
        "smoker": [True, False],
        "email": ["e@x.org", "f@x.org"],
    }
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sites with their tables and an agreement under a key file."""
    monkeypatch.chdir(tmp_path)
    ONE.write_csv("one.csv")
    TWO.write_csv("two.csv")
    for name in ("one", "two"):
        sites.summarise(f"{name}.csv", f"{name}.json")
    sites.agree("agreed", summaries=["one.json", "two.json"], key_file="key")
    return tmp_path


def encode(name: str, output: str, **options: Any) -> sites.Done:
    given = {"agreement": "agreed", "key_file": "key", **options}
    return site_tables.encode(name, output, **given)


def decode(name: str, output: str, **options: Any) -> sites.Done:
    given = {"agreement": "agreed", "key_file": "key", **options}
    return sites.decode(name, output, **given)


def test_the_whole_flow_brings_the_union_back(folder: Path) -> None:
    encode("one.csv", "one.parquet")
    encode("two.csv", "two.parquet", vocabulary="two.words")
    joined = site_union.join(["one.parquet", "two.parquet"], "union.parquet")
    assert joined.summary["records"] == 6
    agreement = SiteAgreement.load("agreed", SecretKey.load("key"))
    for name in ("one.parquet", "union.parquet"):  # also if the manifest gets lost
        carried = pl.read_parquet_metadata(name)
        assert carried["tulle.fingerprint"] == agreement.fingerprint
    decode("union.parquet", "plain.parquet", values=["one.csv", "two.words"])
    expected = pl.concat([ONE, TWO]).drop("email")
    assert pl.read_parquet("plain.parquet").equals(expected)
    assert stat.S_IMODE(Path("plain.parquet").stat().st_mode) == 0o600


def test_what_leaves_holds_neither_values_nor_secrets(folder: Path) -> None:
    encode("one.csv", "one.csv.gz", vocabulary="one.words")
    encode("two.csv", "two.parquet")
    agreement = SiteAgreement.load("agreed", SecretKey.load("key"))
    import gzip

    leaving = [
        Path("one.json").read_bytes(),
        gzip.decompress(Path("one.csv.gz").read_bytes()),
        Path("one.csv.gz.manifest.json").read_bytes(),
        Path("one.words").read_bytes(),
        Path("two.parquet").read_bytes(),
    ]
    secrets = [b"Gastritis", b"Flu", b"a@x.org", agreement._key._secret.hex().encode()]
    for content in leaving:
        assert not any(secret in content for secret in secrets)
    entries = read_manifest("one.csv.gz")
    assert entries.parameters["fingerprint"] == agreement.fingerprint
    assert entries.counts["records"] == 4
    assert "sha256" not in entries.source
    assert "one.csv" not in json.dumps(entries.source)


def test_union_refuses_other_agreements_schemas_and_duplicates(folder: Path) -> None:
    encode("one.csv", "one.parquet")
    encode("one.csv", "again.csv")
    encode("two.csv", "two.parquet", release="spring")
    with pytest.raises(DataError):
        site_union.join(["one.parquet", "two.parquet"], "union.parquet")
    with pytest.raises(DataError, match="twice"):
        site_union.join(["one.parquet", "one.parquet"], "union.parquet")
    with pytest.raises(DataError, match="twice"):
        site_union.join(["one.parquet", "again.csv"], "union.parquet")
    with pytest.raises(DataError):
        site_union.join(["one.parquet"], "union.parquet")
    with pytest.raises(DataError, match="manifest"):
        site_union.join(["one.parquet", "two.csv"], "union.parquet")
    assert not Path("union.parquet").exists()


def test_union_refuses_changed_tables_and_foreign_releases(folder: Path) -> None:
    encode("one.csv", "one.csv.gz")
    encode("two.csv", "two.parquet")
    manifest = json.loads(manifest_path("two.parquet").read_text())
    for changes, words in [
        ({"method": "condensation"}, "site codes"),
        ({"method": "union of site codes"}, "joined already"),
        ({"parameters": {}}, "names no agreement"),
        ({"columns": {"age": {"coded": "number"}}}, "different columns"),
    ]:
        manifest_path("two.parquet").write_text(json.dumps({**manifest, **changes}))
        with pytest.raises(DataError, match=words):
            site_union.join(["one.csv.gz", "two.parquet"], "union.parquet")
    manifest_path("two.parquet").write_text(json.dumps(manifest))
    Path("two.parquet").write_bytes(Path("two.parquet").read_bytes() + b" ")
    with pytest.raises(DataError):
        site_union.join(["one.csv.gz", "two.parquet"], "union.parquet")


def test_union_of_text_files_keeps_types_where_a_site_has_nothing(folder: Path) -> None:
    TWO.with_columns(age=pl.lit(None, pl.Int64), illness=pl.lit(None, pl.String)).write_csv(
        "three.csv"
    )
    encode("one.csv", "one.coded.csv")
    encode("three.csv", "three.coded.csv")
    site_union.join(["one.coded.csv", "three.coded.csv"], "union.parquet")
    assert pl.read_parquet("union.parquet").schema == {
        "age": pl.Float64, "illness": pl.String, "smoker": pl.String,
    }  # fmt: skip


@pytest.mark.parametrize("damage", ["tampered", "truncated", "version", "key"])
def test_nothing_is_written_when_the_agreement_does_not_open(folder: Path, damage: str) -> None:
    content = Path("agreed").read_bytes()
    if damage == "tampered":
        Path("agreed").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "truncated":
        Path("agreed").write_bytes(content[:-20])
    elif damage == "version":
        Path("agreed").write_bytes(content.replace(b'"version": 1', b'"version": 7'))
    else:
        SecretKey.generate().save("key", force=True)
    before = sorted(os.listdir())
    words = {
        "tampered": "was changed after it was sealed",
        "truncated": "sealed bytes",
        "version": "another version",
        "key": "the key file does not open",
    }[damage]
    with pytest.raises(KeyMaterialError, match=words):
        encode("one.csv", "out.parquet")
    with pytest.raises(KeyMaterialError, match=words):
        decode("one.csv", "out.csv")
    with pytest.raises(KeyMaterialError, match=words):
        sites.rotate("agreed", key_file="key")
    assert sorted(os.listdir()) == before


def test_bad_rows_leave_nothing_behind(folder: Path) -> None:
    pl.concat([ONE, ONE.with_columns(age=pl.lit(500, pl.Int64))]).write_csv("wild.csv")
    before = sorted(os.listdir())
    with pytest.raises(DataError, match="'age'.*4 values"):
        encode("wild.csv", "out.parquet", vocabulary="out.words")
    assert sorted(os.listdir()) == before
    encode("wild.csv", "out.parquet", clamp=True)
    assert read_manifest("out.parquet").parameters["clamp"] is True


def test_outputs_do_not_replace_sources_or_others(folder: Path) -> None:
    for output in ("one.csv", "agreed", "key"):
        with pytest.raises(ValueError, match="source"):
            encode("one.csv", output, force=True)
    encode("one.csv", "one.parquet")
    with pytest.raises(ValueError, match="exists already"):
        encode("one.csv", "one.parquet")
    with pytest.raises(ValueError, match="exists already"):
        sites.agree("agreed", summaries=["one.json"], key_file="key")


def test_rotation_keeps_the_old_agreement_readable(folder: Path) -> None:
    encode("one.csv", "old.parquet")
    made = sites.rotate("agreed", key_file="key")
    assert made.summary["generation"] == 2
    encode("two.csv", "new.parquet", agreement="agreed.g2")
    with pytest.raises(DataError):
        site_union.join(["old.parquet", "new.parquet"], "union.parquet")
    with pytest.raises(DataError, match=r"old\.parquet"):
        decode("old.parquet", "plain.csv", agreement="agreed.g2", values=["one.csv"])
    decode("old.parquet", "plain.csv", values=["one.csv"])
    assert pl.read_csv("plain.csv")["illness"].to_list() == ONE["illness"].to_list()


def test_results_of_every_kind_are_decoded(folder: Path) -> None:
    agreement = SiteAgreement.load("agreed", SecretKey.load("key"))
    encoded = SiteCodec(agreement).transform(ONE)
    flu, code = encoded["illness"][0], encoded["age"][0]
    Path("tree.txt").write_text(f"|--- age <= {code:.12f}\n|   |--- class: {flu}\n")
    Path("rules.json").write_text(json.dumps([{"if": {"illness": flu, "age": code}}]))
    pl.DataFrame({"antecedents": [f"illness={flu}"], "support": [0.5]}).write_csv("rules.csv")
    pl.DataFrame({"age": [encoded["age"][:2].mean()], "n": [3]}).write_csv("centers.csv")
    for name, kind in [("tree.txt", None), ("rules.json", None), ("rules.csv", "rules"),
                       ("centers.csv", "centers")]:  # fmt: skip
        done = decode(name, f"plain.{name}", values=["one.csv"], kind=kind)
        assert done.summary["unknown_aliases"] == 0
    assert Path("plain.tree.txt").read_text() == "|--- age <= 34\n|   |--- class: Flu\n"
    (rule,) = json.loads(Path("plain.rules.json").read_text())
    assert rule["if"]["illness"] == "Flu"
    assert rule["if"]["age"] == pytest.approx(34)
    assert pl.read_csv("plain.rules.csv").row(0) == ("illness=Flu", 0.5)
    assert pl.read_csv("plain.centers.csv")["age"][0] == pytest.approx(42.5)
    with pytest.raises(DataError, match="decode_centers"):
        decode("centers.csv", "x.csv", values=["one.csv"])
    done = decode("tree.txt", "unread.txt")
    assert done.summary["unknown_aliases"] == 1
    assert flu in Path("unread.txt").read_text()


@pytest.mark.slow
def test_report_says_plainly_what_leaks(folder: Path) -> None:
    done = encode("one.csv", "one.parquet", report="one.html", seed=1)
    page = Path("one.html").read_text()
    assert "frequency matching" in page.lower()
    assert "not frequencies and order" in page
    assert "Gastritis" not in page
    assert done.tables["attacks"]
    assert {row["column"] for row in done.tables["attacks"]} == {"age", "illness", "smoker"}
    assert any("not frequencies and order" in note for note in done.notes)
    assert "recovered by" in page
    informed = encode("one.csv", "two.parquet", report="two.html", public="two.csv", seed=1)
    assert informed.tables["attacks"]


def test_policy_gives_kinds_roles_ranges_and_choices(folder: Path) -> None:
    Path("policy.toml").write_text(
        """
        [columns.age]
        kind = "integer"
        role = "quasi-identifier"
        bounds = [0, 120]
        [columns.illness]
        kind = "category"
        role = "sensitive"
        [columns.smoker]
        kind = "boolean"
        role = "target"
        [columns.email]
        kind = "text"
        role = "identifier"
        [sites]
        cuts = "uneven"
        groups = 7
        plain = ["smoker"]
        categories = {illness = ["Flu", "Gastritis", "Mumps"]}
        """
    )
    done = sites.agree("second", policy="policy.toml", key_file="key")
    coded = {row["column"]: row["coded"] for row in done.tables["columns"]}
    assert coded == {
        "age": "graded, uneven groups",
        "illness": "aliases by table",
        "smoker": "plain",
        "email": "dropped",
    }
    agreement = SiteAgreement.load("second", SecretKey.load("key"))
    assert (agreement["age"].low, agreement["age"].high) == (0, 120)  # type: ignore[union-attr]
    sites.agree("third", policy="policy.toml", summaries=["one.json"], key_file="key")
    third = SiteAgreement.load("third", SecretKey.load("key"))
    assert third["age"].high == 120  # type: ignore[union-attr]
    with pytest.raises(DataError, match="policy"):
        sites.agree("fourth", key_file="key")


def test_large_tables_go_through_in_batches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tulle._commands import site_tables as reading

    whole = pl.concat([ONE, TWO] * 20)
    whole.write_parquet("big.parquet")
    small = partial(reading.read_batches, rows=7)
    monkeypatch.setattr(reading, "read_batches", small)
    encode("big.parquet", "codes.parquet")
    decode("codes.parquet", "plain.parquet", values=["big.parquet"])
    assert pl.read_parquet("plain.parquet").equals(whole.drop("email"))


@pytest.mark.parametrize("option", ["vocabulary", "report"])
def test_nothing_takes_the_place_of_what_is_read(folder: Path, option: str) -> None:
    for name in ("one.csv", "agreed", "key"):
        shutil.copy(name, f"{name}.html")
    options = {"agreement": "agreed.html", "key_file": "key.html", "force": True}
    before = {name: Path(name).read_bytes() for name in os.listdir()}
    for name in ("one.csv", "agreed.html", "key.html", "out.parquet"):
        place = "one.csv" if name == "one.csv" and option == "vocabulary" else name
        if option == "report" and not place.endswith(".html"):
            continue
        with pytest.raises(ParameterError, match="same file"):
            encode("one.csv", "out.parquet", **options, **{option: place})
    for work in (
        lambda: sites.agree("key", summaries=["one.json"], key_file="key", force=True),
        lambda: sites.agree("new", summaries=["one.json"], key_file="new"),
        lambda: sites.agree("one.json", summaries=["one.json"], key_file="key", force=True),
        lambda: sites.rotate("agreed", "key", key_file="key", force=True),
        lambda: decode("one.csv", "key", kind="text", force=True),
    ):
        with pytest.raises(TulleError, match=r"same file|source"):
            work()
    assert {name: Path(name).read_bytes() for name in os.listdir()} == before


@pytest.mark.slow
def test_a_report_that_cannot_be_made_is_known_before_anything_is_written(folder: Path) -> None:
    Path("other.csv").write_text("x\n1\n")
    before = sorted(os.listdir())
    for options, words in [
        ({"report": "r.html", "public": "other.csv"}, "has no column 'age'"),
        ({"report": "r.html", "public": "nowhere.csv"}, "no such file"),
        ({"report": "r.pdf"}, "r.pdf"),
        ({"public": "two.csv"}, "--report"),
    ]:
        with pytest.raises(TulleError, match=words):
            encode("one.csv", "out.parquet", **options)
    assert sorted(os.listdir()) == before
    known = TWO.drop("email")  # nobody needs to know what does not go out
    known.write_csv("known.csv")
    encode("one.csv", "out.parquet", report="r.html", public="known.csv")


@pytest.mark.parametrize("option", ["vocabulary", "report"])
def test_codes_that_are_there_are_told_when_the_rest_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SiteCodec, "save_vocabulary", full)
    monkeypatch.setattr("tulle.auditing.Audit.save", full)
    with pytest.raises(DataError, match=r"one\.parquet"):
        encode("one.csv", "one.parquet", **{option: "more.html"})


@pytest.mark.slow
def test_dates_that_a_file_keeps_as_text_are_attacked_too(folder: Path) -> None:
    born = pl.DataFrame({"born": ["1950-01-02", "1960-03-04", None, "1970-05-06"]})
    born.write_parquet("born.parquet")
    Path("policy.toml").write_text(
        """
        [columns.born]
        kind = "datetime"
        role = "quasi-identifier"
        [sites]
        ranges = {born = ["1900-01-01", "2000-01-01"]}
        """
    )
    sites.agree("dates", policy="policy.toml", key_file="key")
    done = encode("born.parquet", "codes.parquet", agreement="dates", report="r.html", seed=0)
    assert [row["column"] for row in done.tables["attacks"]] == ["born"]


def test_the_manifest_says_what_does_not_lead_back(folder: Path) -> None:
    encode("one.csv", "one.parquet")
    encode("one.csv", "clamped.parquet", clamp=True)
    told = [next(iter(read_manifest(f"{name}.parquet").verified)) for name in ("one", "clamped")]
    assert told == [
        "every code leads back to its value",
        "every code leads back to its value or the end of its range",
    ]


def test_batches_of_a_split_column_do_not_draw_alike(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tulle._commands import site_tables as reading

    pl.DataFrame({"sex": ["f"] * 400}).write_csv("sex.csv")
    Path("policy.toml").write_text(
        '[columns.sex]\nkind = "category"\nrole = "target"\n[sites]\nsplit = {sex = 0.1}\n'
    )
    sites.agree("split", policy="policy.toml", key_file="key")
    small = partial(reading.read_batches, rows=200)
    monkeypatch.setattr(reading, "read_batches", small)
    encode("sex.csv", "codes.parquet", agreement="split", seed=1)
    codes = pl.read_parquet("codes.parquet")["sex"].to_list()
    assert codes[:200] != codes[200:]


def test_policy_and_options_are_combined_column_by_column(folder: Path) -> None:
    Path("policy.toml").write_text(
        """
        [columns.age]
        kind = "integer"
        role = "quasi-identifier"
        [columns.stay]
        kind = "integer"
        role = "quasi-identifier"
        [sites]
        ranges = {age = [0, 120]}
        """
    )
    given = {"policy": "policy.toml", "key_file": "key"}
    sites.agree("both", ranges={"stay": (0, 9)}, **given)
    agreement = SiteAgreement.load("both", SecretKey.load("key"))
    assert agreement["age"].high == 120  # type: ignore[union-attr]
    assert agreement["stay"].high == 9  # type: ignore[union-attr]
    with pytest.raises(TulleError, match="groups"):
        sites.agree("none", ranges={"stay": (0, 9)}, groups=0, **given)


def test_odd_results_get_a_clear_word(folder: Path) -> None:
    Path("bom.json").write_bytes(b'\xef\xbb\xbf{"n": 3}')
    decode("bom.json", "plain.json")
    assert json.loads(Path("plain.json").read_text()) == {"n": 3}
    Path("deep.json").write_text("[" * 100_000)
    Path("half.json").write_text('{"a": "\\ud800"}')
    Path("wide.txt").write_bytes("age <= 3".encode("utf-16"))
    for name, words in [
        ("deep.json", "nested too deeply"),
        ("half.json", "surrogate"),
        ("wide.txt", "UTF-8"),
    ]:
        with pytest.raises(DataError, match=words):
            decode(name, f"out.{name}")
    with pytest.raises(ParameterError, match="decimals"):
        decode("bom.json", "out.json", decimals=2)
    with pytest.raises(ParameterError, match="database"):
        decode("bom.json", "sqlite:///plain.db#rules")


def run(*arguments: str, passphrase: str | None = "correct horse", text: str = "") -> Result:
    environment = {"TULLE_PASSPHRASE": passphrase}
    return CliRunner().invoke(tulle, ["sites", *arguments], env=environment, input=text)


@pytest.mark.slow
def test_command_line_from_agreement_to_results(folder: Path) -> None:
    made = run("agree", "one.json", "two.json", "-o", "sealed", "--range", "age=0..130",
               "--cuts", "uneven", "--split", "illness=0.4", "--json")  # fmt: skip
    assert made.exit_code == 0, made.output
    shown = json.loads(made.output)
    fingerprint = shown["fingerprint"]
    assert len(fingerprint) == 39
    for name in ("one", "two"):
        arguments = ("encode", f"{name}.csv", "-o", f"{name}.parquet", "-a", "sealed")
        encoded = run(*arguments, "--vocabulary", f"{name}.words")
        assert encoded.exit_code == 0, encoded.output
        assert fingerprint in encoded.output
    assert run("join", "one.parquet", "two.parquet", "-o", "union.parquet").exit_code == 0
    decoded = run("decode", "union.parquet", "-o", "plain.csv", "-a", "sealed",
                  "--values", "one.words", "--values", "two.csv")  # fmt: skip
    assert decoded.exit_code == 0, decoded.output
    assert pl.read_csv("plain.csv")["illness"].to_list() == [
        "Flu", "Gastritis", "Flu", None, "Mumps", "Flu",
    ]  # fmt: skip
    rotated = run("rotate", "sealed", "--json")
    assert json.loads(rotated.output)["replaces"] == fingerprint


@pytest.mark.slow
def test_command_line_asks_for_the_passphrase_and_never_shows_it(folder: Path) -> None:
    asked = run("agree", "one.json", "-o", "sealed", passphrase=None,
                text="correct horse\ncorrect horse\n")  # fmt: skip
    assert asked.exit_code == 0, asked.output
    assert "correct horse" not in asked.output
    assert SiteAgreement.load("sealed", "correct horse").generation == 1
    short = run("agree", "one.json", "-o", "other", passphrase="short")
    assert isinstance(short.exception, KeyMaterialError)
    assert "at least 8 characters" in str(short.exception)
    assert not Path("other").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--range", "age"),
        ("--range", "age=5"),
        ("--range", "age=0...120"),
        ("--limits", "age"),
        ("--values", "age=a,b"),
        ("--categories", "illness=absent.txt"),
        ("--split", "illness=much"),
    ],
)
def test_command_line_shows_how_options_are_written(
    folder: Path, arguments: tuple[str, str]
) -> None:
    wrong = run("agree", "one.json", "-o", "sealed", *arguments)
    assert wrong.exit_code == 2
    assert arguments[0] in wrong.output


@pytest.mark.slow
def test_lists_of_categories_may_come_from_any_editor(folder: Path) -> None:
    Path("list.txt").write_bytes("\ufeffFlu\r\nGastritis\r\n\r\nMumps\r\n".encode())
    made = run("agree", "one.json", "two.json", "-o", "sealed", "--categories", "illness=list.txt")
    assert made.exit_code == 0, made.output
    assert run("encode", "one.csv", "-o", "codes.csv", "-a", "sealed").exit_code == 0
    wrong = run("agree", "one.json", "-o", "other", "--groups", "0")
    assert "groups" in str(wrong.exception)
