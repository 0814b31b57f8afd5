"""tulle audit on files: reports, roles, gates and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from benchmarks.broken_releases import survey, with_exact_totals
from benchmarks.columns_hospital import hospital
from tests.reference.audit_condense import condensed
from tulle._commands.audit import attack_rows, audit_files
from tulle._commands.condense import condense
from tulle.cli import tulle
from tulle.cli._output import command_line
from tulle.errors import GateError, ParameterError, PrivacyError, TulleError
from tulle.releases import Manifest, write_release


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    names = ["a", "b", "c", "d"]
    people = rng.normal(size=(400, 4)) @ rng.normal(size=(4, 4))
    original, control = people[:250], people[250:]

    def table(matrix: np.ndarray) -> pl.DataFrame:
        frame = pl.DataFrame(matrix, schema=names).with_columns(pl.all().round(6))
        return frame.with_columns(
            rich=pl.when(pl.col("a") > 0).then(pl.lit("yes")).otherwise(pl.lit("no"))
        )

    table(original).write_csv(tmp_path / "original.csv")
    table(original).sample(fraction=1, shuffle=True, seed=1).write_csv(tmp_path / "copy.csv")
    table(condensed(original, 40, rng)).write_parquet(tmp_path / "good.parquet")
    table(control).write_csv(tmp_path / "control.csv")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(tulle, ["audit", *arguments])


@pytest.mark.slow
def test_a_copy_fails_the_gate_and_the_report_is_there_all_the_same(files: Path) -> None:
    result = run(
        str(files / "original.csv"),
        str(files / "copy.csv"),
        *("--control", str(files / "control.csv")),
        *("--max-linkage", "0.05", "-o", str(files / "report.html"), "--seed", "1"),
    )
    assert isinstance(result.exception, GateError)
    assert result.exception.exit_code == 1
    assert "max_linkage is 1" in str(result.exception)
    assert "Do not release this" in (files / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("shown", [(), ("--json",)])
def test_a_bad_verdict_ends_with_1_also_without_gates(files: Path, shown: tuple[str, ...]) -> None:
    compared = (str(files / "original.csv"), str(files / "copy.csv"))
    report = str(files / "report.html")
    result = run(*compared, "--attempts", "30", "--seed", "1", "-o", report, *shown)
    assert isinstance(result.exception, PrivacyError)
    assert result.exception.exit_code == 1
    assert "verdict on privacy" in str(result.exception)
    assert "--accept-risk" in str(result.exception)
    assert "Do not release this" in (files / "report.html").read_text()
    if shown:
        assert json.loads(result.stdout)["verdict"]["privacy"]["level"] == "bad"


@pytest.mark.slow
def test_a_good_release_passes_and_speaks_json(files: Path) -> None:
    result = run(
        str(files / "original.csv"),
        str(files / "good.parquet"),
        *("--control", str(files / "control.csv"), "--target", "rich"),
        *("--max-linkage", "5%", "--max-copies", "1%", "--min-accuracy-ratio", "0.6"),
        *("--json", "--seed", "1", "--attempts", "100", "-o", str(files / "report.md"), "--public"),
    )
    assert result.exit_code == 0, result.exception
    told = json.loads(result.stdout)
    assert all(gate["holds"] for gate in told["gates"])
    assert {row["attack"] for row in told["attacks"]} >= {"linkage", "membership"}
    assert told["accuracy_ratio"] > 0.6
    text = (files / "report.md").read_text()
    assert "aggregates" not in text
    assert "max_linkage" in text.replace("\\", "")


@pytest.mark.slow
def test_the_manifest_beside_a_release_tells_roles_and_guarantee(files: Path) -> None:
    original = pl.read_csv(files / "original.csv").with_columns(name=pl.lit("x"))
    original.write_csv(files / "named.csv")
    roles: dict = {"name": {"kind": "text", "role": "identifier"}, "rich": {"role": "sensitive"}}
    made = Manifest("test", {}, {}, {"groups of at least 40": True}, columns=roles)
    release = pl.read_parquet(files / "good.parquet")
    write_release(files / "release.csv", release.write_csv, made)
    found = audit_files(files / "named.csv", files / "release.csv", seed=1, attempts=30).to_dict()
    assert [row["holds"] for row in found["guarantee"]["rows"]] == [True, True]
    names = [name for name in found["attacks"] if name.startswith("inf")]
    assert names == ["inference:rich", "inference:rich (neighbour)"]
    (files / "release.csv").write_text((files / "release.csv").read_text() + "1,2,3,4,no\n")
    changed = audit_files(files / "named.csv", files / "release.csv", seed=1, attempts=30)
    assert changed.verdict["privacy"]["level"] == "bad"
    odd = Manifest("test", {}, {}, made.verified, columns={**roles, "a": {"role": "odd"}})
    write_release(files / "odd.csv", release.write_csv, odd)
    with pytest.raises(TulleError, match="'a'"):
        audit_files(files / "named.csv", files / "odd.csv")


@pytest.mark.slow
def test_a_policy_names_what_was_left_out(files: Path) -> None:
    original = pl.read_csv(files / "original.csv")
    original.with_columns(note=pl.col("rich") + "!").write_csv(files / "noted.csv")
    policy = "".join(
        f'[columns.{n}]\nkind = "{k}"\nrole = "{r}"\n'
        for n, k, r in [
            *((name, "decimal", "quasi-identifier") for name in "abcd"),
            ("rich", "category", "target"),
            ("note", "text", "ignored"),
        ]
    )
    (files / "policy.toml").write_text(policy)
    with pytest.raises(TulleError, match="lacks 1 column"):
        audit_files(files / "noted.csv", files / "good.parquet")
    found = audit_files(
        files / "noted.csv",
        files / "good.parquet",
        policy=files / "policy.toml",
        seed=1,
        attempts=30,
    )
    assert "accuracy_ratio" in found.to_dict()["metrics"]
    assert attack_rows(found)[0]["attack"] == "exact_copies"


@pytest.mark.slow
def test_identifiers_that_a_release_left_out_are_guessed(files: Path) -> None:
    original = pl.read_csv(files / "original.csv")
    mails = pl.Series("email", [f"p{i}@example.org" for i in range(original.height)])
    original.with_columns(mails).write_csv(files / "mailed.csv")
    found = audit_files(files / "mailed.csv", files / "good.parquet", seed=1, attempts=30)
    assert "5 columns" in found.to_dict()["summary"]


def test_bad_outputs_are_refused_before_any_work(files: Path) -> None:
    source, release = files / "original.csv", files / "copy.csv"
    with pytest.raises(TulleError, match="same file"):
        audit_files(source, release, report=source)
    (files / "there.html").write_text("x")
    with pytest.raises(TulleError, match="exists already"):
        audit_files(source, release, report=files / "there.html")
    with pytest.raises(TulleError):
        audit_files(source, files / "nowhere.csv")


@pytest.mark.slow
def test_the_policy_keeps_options_and_gates_and_the_command_line_wins(files: Path) -> None:
    arguments = (str(files / "original.csv"), str(files / "copy.csv"), "--json", "--policy")
    policy = files / "policy.toml"
    policy.write_text("[audit]\nattempts = 30\nseed = 1\nmax_linkage = 0.05\n")
    result = run(*arguments, str(policy))
    assert isinstance(result.exception, GateError)
    gates = json.loads(result.stdout)["gates"]
    assert [(g["name"], g["limit"], g["people"]) for g in gates] == [("max_linkage", 0.05, 30)]
    assert isinstance(run(*arguments, str(policy), "--max-linkage", "1").exception, PrivacyError)
    for text, message in (
        ("max_linkag = 0.05", "did you mean 'max_linkage'"),
        ('max_linkage = "lots"', "'max_linkage' in [audit] must be"),
        ("max_linkage = 5", "'max_linkage' in [audit] must be"),
        ("k = 1", "'k' in [audit] must be"),
    ):
        policy.write_text(f"[audit]\n{text}\n")
        result = run(*arguments, str(policy))
        assert isinstance(result.exception, TulleError)
        assert message in str(result.exception)
    with pytest.raises(ParameterError, match="'seed'"):
        audit_files(files / "original.csv", files / "copy.csv", sed=1)


@pytest.mark.slow
def test_limits_are_checked_before_any_work(files: Path) -> None:
    source, release = files / "original.csv", files / "copy.csv"
    for gates, message in (
        ({"min_accuracy_ratio": -1.0}, "--min-accuracy-ratio must be"),
        ({"min_accuracy_ratio": float("nan")}, "--min-accuracy-ratio must be"),
        ({"max_membership": 0.1}, "a control of at least 20 records"),
    ):
        with pytest.raises(ParameterError, match=message):
            audit_files(source, release, **gates)
    pl.read_csv(files / "control.csv").head(10).write_csv(files / "few.csv")
    with pytest.raises(ParameterError, match="least 20 records"):
        audit_files(source, release, control=files / "few.csv", max_membership=0.1, attempts=5)


@pytest.mark.slow
def test_a_release_that_is_not_what_its_manifest_says_ends_with_1(files: Path) -> None:
    made = Manifest("test", {}, {}, {"groups of at least 40": True})
    release = pl.read_parquet(files / "good.parquet")
    write_release(files / "release.csv", release.write_csv, made)
    arguments = (str(files / "original.csv"), str(files / "release.csv"), "--attempts", "20")
    assert run(*arguments).exit_code == 0
    (files / "release.csv").write_text((files / "release.csv").read_text() + "1,2,3,4,no\n")
    result = run(*arguments)
    assert isinstance(result.exception, PrivacyError)
    assert result.exception.exit_code == 1
    assert "data unchanged since the release" in str(result.exception)


def test_the_public_edition_needs_a_file(files: Path) -> None:
    result = run(str(files / "original.csv"), str(files / "copy.csv"), "--public")
    assert result.exit_code == 2
    assert "--public" in result.output


def test_a_query_is_not_told_in_the_title(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"name": ["Smith", "Jones"] * 30, "x": rng.normal(size=60)})
    place = f"sqlite:///{tmp_path / 'clinic.db'}"
    table.write_database("visits", place, engine="adbc")
    table.write_csv(tmp_path / "original.csv")
    query = f"{place}#SELECT * FROM visits WHERE name <> 'Miller'"
    found = audit_files(tmp_path / "original.csv", query, seed=0, attempts=5)
    assert found.to_dict()["title"] == "Audit of clinic.db#query"


def test_the_command_in_a_report_has_no_password_and_no_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = [
        "audit",
        "a.csv",
        "--control=postgresql://ann:secret@db/clinic#t",
        "--seed=7",
        "--seed",
    ]
    monkeypatch.setattr("sys.argv", ["tulle", *words, "8"])
    expected = "tulle audit a.csv '--control=postgresql://ann@db/clinic#t' --seed=... --seed ..."
    assert command_line() == expected


def _people(count: int, zips: list[str], last_day: int) -> pl.DataFrame:
    rng = np.random.default_rng(count)
    days = [f"{day:02}/0{month}/2024" for day, month in rng.integers(1, (last_day, 9), (count, 2))]
    return pl.DataFrame(
        {"age": rng.integers(20, 80, count), "zip": rng.choice(zips, count), "day": days}
    )


@pytest.mark.slow
def test_files_without_types_are_taken_as_the_original_is(tmp_path: Path) -> None:
    """Codes of which none has a leading zero, and days that might be months."""
    _people(120, ["01067", "80331"], 28).write_csv(tmp_path / "original.csv")
    _people(90, ["80331", "10115"], 28).write_csv(tmp_path / "release.csv")
    _people(40, ["80331", "10115"], 12).write_csv(tmp_path / "control.csv")
    files = {name: tmp_path / f"{name}.csv" for name in ("original", "release", "control")}
    found = audit_files(**files, seed=1)  # type: ignore[arg-type]
    assert found.result["attacks"]["linkage"]["control"] is not None


@pytest.mark.slow
def test_whole_numbers_that_are_codes_go_with_codes(tmp_path: Path) -> None:
    for name, zips in (("original", "80331"), ("release", "80331"), ("control", "01067")):
        _people(60 + len(name), [zips, "10115"], 28).drop("day").write_csv(tmp_path / f"{name}.csv")
    files = {name: tmp_path / f"{name}.csv" for name in ("original", "release", "control")}
    assert audit_files(**files, seed=1).result["attacks"]  # type: ignore[arg-type]
    files["policy"] = tmp_path / "policy.toml"
    kinds = {"age": "integer", "zip": "category"}
    files["policy"].write_text(
        "".join(f'[columns.{n}]\nkind = "{k}"\nrole = "sensitive"\n' for n, k in kinds.items())
    )
    found = audit_files(**files, seed=1)  # type: ignore[arg-type]
    assert found.result["attacks"]["linkage"]["control"] is not None


@pytest.mark.slow
def test_a_register_is_looked_up_in_the_release(files: Path) -> None:
    people = pl.read_csv(files / "original.csv")
    names = pl.Series("name", [f"Jane {i}" for i in range(60)])
    people.head(60).select("a", "b", names).write_csv(files / "register.csv")
    result = run(
        *(str(files / "original.csv"), str(files / "copy.csv"), "--json", "--seed", "1"),
        *("--control", str(files / "control.csv"), "--known", str(files / "register.csv")),
    )
    attacks = {row["attack"]: row for row in json.loads(result.stdout)["attacks"]}
    assert attacks["linkage_known"]["rate"] == 1
    pl.DataFrame({"name": ["Jane"]}).write_csv(files / "register.csv")
    with pytest.raises(TulleError, match="register"):
        audit_files(files / "original.csv", files / "copy.csv", known=files / "register.csv")


@pytest.fixture
def survey_files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    people = survey(rng, 300)
    people.write_csv(tmp_path / "people.csv")
    with_exact_totals(people, rng).write_csv(tmp_path / "now.csv")
    with_exact_totals(people[1:], rng).write_csv(tmp_path / "before.csv")
    return tmp_path


@pytest.mark.slow
def test_an_earlier_release_is_a_gate_of_its_own(survey_files: Path) -> None:
    people, now, before = (str(survey_files / f"{n}.csv") for n in ("people", "now", "before"))
    result = run(people, now, "--earlier", before, "--max-earlier", "5%", "--json", "--seed", "1")
    assert isinstance(result.exception, GateError)
    rows = {row["attack"]: row for row in json.loads(result.stdout)["attacks"]}
    assert rows["earlier_totals"]["rate"] == 1
    twice = run(people, now, "--earlier", now, "--earlier", before, "--json", "--seed", "1")
    assert "earlier_totals" in {row["attack"] for row in json.loads(twice.stdout)["attacks"]}
    missing = run(people, now, "--max-earlier", "5%")
    assert isinstance(missing.exception, ParameterError)
    assert "--earlier" in str(missing.exception)


@pytest.mark.slow
def test_the_worst_case_repeats_what_the_manifest_says(survey_files: Path) -> None:
    people, release = str(survey_files / "people.csv"), str(survey_files / "release.csv")
    made = CliRunner().invoke(
        tulle, ["condense", people, "-o", release, "--k", "10", "--accept-risk", "a test"]
    )
    assert made.exit_code == 0, made.output
    report, public = survey_files / "report.json", survey_files / "public.json"
    options = ["--worst-case", "--attempts", "5", "--seed", "1", "-o"]
    assert run(people, release, *options, str(report)).exit_code == 0
    attacks = json.loads(report.read_text())["attacks"]
    assert {"worst_case:outlier", "worst_case:ordinary"} <= set(attacks)
    assert 0 <= attacks["worst_case:outlier"]["details"]["area under the curve"] <= 1
    assert run(people, release, *options, str(public), "--public").exit_code == 0
    assert "worst_case" not in public.read_text()


def test_the_worst_case_needs_a_manifest(survey_files: Path) -> None:
    people, now = str(survey_files / "people.csv"), str(survey_files / "now.csv")
    result = run(people, now, "--worst-case")
    assert isinstance(result.exception, ParameterError)
    assert "manifest" in str(result.exception)


@pytest.mark.slow
def test_rules_of_a_policy_file_are_held_against_the_release(files: Path) -> None:
    table = pl.read_csv(files / "original.csv").with_columns(b=pl.col("a") + pl.col("b").abs())
    table.write_csv(files / "ordered.csv")
    table.with_columns(pl.col("b").shuffle(1)).write_csv(files / "broken.csv")
    (files / "policy.toml").write_text('[rules]\nbetween = ["a <= b"]\n')
    words = ("--policy", str(files / "policy.toml"), "--json", "--seed", "1")
    for release, least, most in (("ordered.csv", 0, 0), ("broken.csv", 0.1, 0.6)):
        result = run(str(files / "ordered.csv"), str(files / release), *words)
        assert least <= json.loads(result.stdout)["stated_rules_broken"] <= most


@pytest.mark.slow
def test_without_a_policy_columns_are_read_as_condense_reads_them(tmp_path: Path) -> None:
    names = ["Patientennummer", "Alter", "CRP", "Kosten_DRG", "Score", "Geburtsdatum", "PLZ"]
    source, release, bare = (tmp_path / name for name in ("h.csv", "r.csv", "bare.csv"))
    hospital(np.random.default_rng(3), 250).select(names).write_csv(source, separator=";")
    condense(source, release, k=5, seed=1, accept_risk="a test")
    rows = pl.read_csv(release, separator=";", infer_schema=False).drop(names[0])
    rows.write_csv(bare, separator=";")  # no manifest, and no people
    known, guessed = (audit_files(source, file, seed=1, attempts=50) for file in (release, bare))
    tried = [name for name in guessed.result["attacks"] if name.startswith("inference:")]
    assert {name.partition(":")[2] for name in tried if "insider" not in name} >= set(names[1:])
    for name in names[1:]:
        stories = [
            attack["story"].endswith("standard deviations.")
            for found in (known, guessed)
            for key, attack in found.result["attacks"].items()
            if key.startswith(f"inference:{name}")
        ]
        assert set(stories) == {name != "PLZ"}
    people = hospital(np.random.default_rng(3), 250)["Patientennummer"].n_unique()
    assert guessed.result["attacks"]["exact_copies"]["attempts"] == people


@pytest.mark.parametrize(
    ("method", "command"),
    [("hide", "tulle hide"), ("sketch", "tulle sketch"), ("site codes", "tulle sites encode")],
)
def test_what_is_not_a_table_of_people_is_judged_by_the_command_that_made_it(
    tmp_path: Path, method: str, command: str
) -> None:
    table = pl.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})
    table.write_csv(tmp_path / "original.csv")
    manifest = Manifest(
        method=method, parameters={}, guarantee={"kept": True}, verified={"kept": True}
    )
    write_release(tmp_path / "release.csv", table.write_csv, manifest)
    with pytest.raises(ParameterError, match=f"{command} --report"):
        audit_files(tmp_path / "original.csv", tmp_path / "release.csv")
