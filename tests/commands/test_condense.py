"""tulle condense, as a user runs it."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from tulle._commands import condense as workflow
from tulle.cli import tulle
from tulle.errors import TulleError
from tulle.io.read import read_table
from tulle.io.write import write_table
from tulle.releases import read_manifest, verify_release


def people(n: int = 90, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "name": [f"Person {i}" for i in range(n)],
            "age": rng.integers(18, 90, n),
            "income": np.round(rng.normal(3000, 400, n), 2),
            "city": rng.choice(["Bern", "Chur", "Genf"], n),
            "asked": rng.integers(3, 9, n),
            "ill": rng.choice(["yes", "no"], n, p=[0.4, 0.6]),
        }
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    people().write_csv(path)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(tulle, ["condense", *map(str, arguments)])


@pytest.mark.slow
def test_release_keeps_types_and_leaves_names_out(source: Path, tmp_path: Path) -> None:
    result = run(source, "-o", tmp_path / "r.parquet", "--k", 9, "--seed", 1, "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["smallest_group"] >= 9
    assert summary["records"] == summary["released"] == 90
    assert [row["column"] for row in summary["left_out"]] == ["name"]
    release = read_table(tmp_path / "r.parquet")
    assert "name" not in release.columns
    assert release.schema["age"] == pl.Int64
    assert set(release["city"]) <= {"Bern", "Chur", "Genf"}
    assert all(row["holds"] for row in verify_release(tmp_path / "r.parquet"))
    manifest = read_manifest(tmp_path / "r.parquet")
    assert manifest.counts["suppressed"].startswith("fewer than")
    assert manifest.seed == "given"
    assert "Person 1" not in (tmp_path / "r.parquet.manifest.json").read_text()


@pytest.mark.slow
def test_same_seed_same_release_and_policy_replays_it(source: Path, tmp_path: Path) -> None:
    policy = tmp_path / "p.toml"
    assert CliRunner().invoke(tulle, ["inspect", str(source), "-o", str(policy)]).exit_code == 0
    policy.write_text(policy.read_text() + "\n[condense]\nk = 12\nseed = 5\n")
    for name in ("a.csv", "b.csv"):
        result = run(source, "-o", tmp_path / name, "--policy", policy, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["smallest_group"] >= 12
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_levels_are_drawn_from_a_range_for_a_trial(source: Path, tmp_path: Path) -> None:
    """Paper 000: levels even on [alpha - beta, alpha], by a command."""
    result = run(
        source, "-o", tmp_path / "r.csv", "--levels", "6..10", "--grouping", "levels",
        "--synthesis", "uniform", "--seed", "1", "--no-audit", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["levels"]
    assert {row["level"] for row in rows} == {6, 7, 8, 9, 10}
    assert "level" not in (tmp_path / "r.csv").read_text().splitlines()[0].split(",")
    wrong = run(source, "-o", tmp_path / "s.csv", "--levels", "10..6")
    assert wrong.exit_code != 0


@pytest.mark.slow
def test_levels_column_is_honoured_and_not_released(source: Path, tmp_path: Path) -> None:
    result = run(source, "-o", tmp_path / "r.csv", "--levels", "asked", "--json")
    assert result.exit_code == 0, result.output
    for row in json.loads(result.stdout)["levels"]:
        assert row["smallest_group"] >= row["level"]
    assert "asked" not in read_table(tmp_path / "r.csv").columns


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_target_is_condensed_class_by_class(source: Path, tmp_path: Path) -> None:
    options = ["--target", "ill", "--min-group", 5, "--synthesis", "uniform"]
    # nothing but chance tells who is ill here, so that a release that knows it remembers people
    options += ["--accept-risk", "a test"]
    result = run(source, "-o", tmp_path / "r.csv", *options)
    assert result.exit_code == 0, result.output
    before, after = read_table(source), read_table(tmp_path / "r.csv")
    assert before["ill"].value_counts(sort=True).equals(after["ill"].value_counts(sort=True))
    assert read_manifest(tmp_path / "r.csv").method == "class-wise condensation"


@pytest.mark.slow
def test_report_is_written_with_the_release(source: Path, tmp_path: Path) -> None:
    people(40, seed=1).write_csv(tmp_path / "control.csv")
    report = tmp_path / "report.html"
    options = ["--report", report, "--control", tmp_path / "control.csv", "--seed", 3]
    result = run(source, "-o", tmp_path / "r.csv", *options)
    assert result.exit_code == 0, result.output
    page = report.read_text()
    assert "Every value of a released record comes from a cell of its column" in page
    assert "covariance of a group" not in page
    assert "Person 1" not in page


@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
@pytest.mark.parametrize("synthesis", ["shape", "uniform"])
def test_the_report_says_what_this_release_was_drawn_from(
    source: Path, tmp_path: Path, synthesis: str
) -> None:
    report, release = tmp_path / "r.json", tmp_path / "r.csv"
    options = ["--k", 12, "--synthesis", synthesis, "--report", report, "--accept-risk", "a test"]
    assert run(source, "-o", release, *options).exit_code == 0
    text = json.loads(report.read_text())["guarantee"]["text"]
    rests_on = read_manifest(release).guarantee["people that what is shown rests on, at least"]
    numbers = [int(number) for number in re.findall("[0-9]+", text)]
    assert set(numbers) <= set(rests_on.values())
    assert numbers[-1] == rests_on["which records are alike (a group)"]
    assert ("covariance" in text) == (synthesis == "uniform")


@pytest.mark.slow
@pytest.mark.parametrize("first, second", [("01067", "80331"), ("80331", "01067")])
def test_a_control_has_the_codes_of_the_source(tmp_path: Path, first: str, second: str) -> None:
    """One of the files has codes with a leading zero, the other could be whole numbers."""
    table = people(120).select("age", "income", zip=pl.lit(first))
    table.head(80).write_csv(tmp_path / "people.csv")
    table.tail(40).with_columns(zip=pl.lit(second)).write_csv(tmp_path / "control.csv")
    files = ["-o", tmp_path / "r.csv", "--report", tmp_path / "r.html"]
    result = run(tmp_path / "people.csv", *files, "--control", tmp_path / "control.csv")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    "options, words",
    [
        (["--k", "1000"], "1000"),
        (["--k", "1"], "--k must be an int in the range [2, inf)"),
        (["--levels", "agee"], "did you mean 'age'?"),
        (["--target", "no such"], "there is no column 'no such'"),
        (["--policy", "none.toml"], "none.toml: no such file"),
        (["-o", "book.xlsx#people"], "'book.xlsx#people'"),
        (["--holdout", "10%", "--no-audit"], "--no-audit leaves out what"),
        (["--holdout", "10%", "--control", __file__], "give one of the two"),
        (["--holdout", "1"], "--holdout must leave somebody in both parts"),
        (["--accept-risk", "  "], "--accept-risk needs a reason"),
        (["--small-classes", "pool"], "--small-classes needs classes"),
        (["--time", "3"], "--grouping best"),
        (["--k", "5", "--min-group", "7"], "--k must be an int in the range [7, inf)"),
        (["--k", "5", "--levels", "asked"], "--k"),
        (["--min-group", "5", "--levels", "asked"], "--min-group"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(
    source: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    before = sorted(os.listdir(tmp_path))
    result = run(source, "-o", tmp_path / "r.csv", *options)
    assert isinstance(result.exception, TulleError)
    assert words in str(result.exception)
    assert sorted(os.listdir(tmp_path)) == before


def test_source_without_records_or_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("a,b\n")
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
    for name in ("empty.csv", "photo.jpg", "absent.csv"):
        result = run(tmp_path / name, "-o", tmp_path / "r.csv")
        assert isinstance(result.exception, TulleError)
    assert sorted(os.listdir(tmp_path)) == ["empty.csv", "photo.jpg"]


@pytest.mark.slow
def test_source_and_existing_releases_are_safe(source: Path, tmp_path: Path) -> None:
    before = source.read_bytes()
    over = run(source, "-o", source, "--force")
    assert "source" in str(over.exception)
    assert source.read_bytes() == before
    assert run(source, "-o", tmp_path / "r.csv").exit_code == 0
    assert "--force" in str(run(source, "-o", tmp_path / "r.csv").exception)
    assert run(source, "-o", tmp_path / "r.csv", "--force").exit_code == 0


@pytest.mark.slow
def test_number_as_target_is_condensed_with_the_rest(source: Path, tmp_path: Path) -> None:
    assert run(source, "-o", tmp_path / "r.csv", "--target", "income", "--seed", 1).exit_code == 0
    assert read_manifest(tmp_path / "r.csv").method == "condensation"


@pytest.mark.slow
def test_a_release_can_be_a_database_table(tmp_path: Path) -> None:
    source, target = tmp_path / "people.csv", f"sqlite:///{tmp_path}/shared.db#people"
    people().write_csv(source)
    done = CliRunner().invoke(
        tulle, ["condense", str(source), "-o", target, "-k", "5", "--seed", "1"]
    )
    assert done.exit_code == 0
    assert "shared.db#people_manifest" in done.output.replace("\n", "")
    assert read_table(target).height == 90
    assert CliRunner().invoke(tulle, ["verify", target]).exit_code == 0


@pytest.mark.slow
def test_lists_are_left_out(tmp_path: Path) -> None:
    source, output = tmp_path / "people.parquet", tmp_path / "release.parquet"
    people().with_columns(visits=pl.Series([[1, 2]] * 90)).write_parquet(source)
    done = run(source, "-o", output, "-k", "5", "--seed", "1")
    assert done.exit_code == 0, done.output
    assert "visits" not in read_table(output).columns
    assert read_manifest(output).columns["visits"]["role"] == "ignored"
    assert CliRunner().invoke(tulle, ["audit", str(source), str(output)]).exit_code == 0


def test_no_file_takes_the_place_of_another(source: Path, tmp_path: Path) -> None:
    read_table(source).write_ndjson(tmp_path / "people.ndjson")
    before = (tmp_path / "people.ndjson").read_bytes()
    (tmp_path / "page.json").symlink_to(tmp_path / "people.ndjson")
    for report, words in (
        (tmp_path / "page.json", "INPUT"),
        (tmp_path / "r.csv.manifest.json", "the manifest"),
    ):
        options = ["-o", tmp_path / "r.csv", "--report", report, "--force"]
        result = run(tmp_path / "people.ndjson", *options)
        assert isinstance(result.exception, TulleError)
        assert words in str(result.exception)
    assert (tmp_path / "people.ndjson").read_bytes() == before
    assert not (tmp_path / "r.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, least", [([], 10), (["--min-group", 30], 30), (["--min-group", 30, "--k", 40], 40)]
)
@pytest.mark.parametrize("target", [[], ["--target", "ill", "--small-classes", "pool"]])
def test_no_group_is_smaller_than_asked_and_the_manifest_says_what_was(
    source: Path, tmp_path: Path, options: list[object], least: int, target: list[object]
) -> None:
    result = run(source, "-o", tmp_path / "r.csv", *options, *target)
    assert result.exit_code == 0, result.output
    made = read_manifest(tmp_path / "r.csv")
    assert made.counts["smallest group"] >= least
    assert made.parameters["k"] >= least


@pytest.mark.parametrize("line", ['small_classes = "eror"', 'min_group = "3"', "min_group = 0"])
def test_options_of_a_policy_are_checked_even_where_nothing_needs_them(
    source: Path, tmp_path: Path, line: str
) -> None:
    (tmp_path / "p.toml").write_text(f"[condense]\n{line}\n")
    result = run(source, "-o", tmp_path / "r.csv", "--policy", tmp_path / "p.toml")
    assert isinstance(result.exception, TulleError)
    assert line.partition(" ")[0] in str(result.exception).replace("-", "_")


@pytest.mark.slow
def test_a_control_needs_the_columns_of_the_release(source: Path, tmp_path: Path) -> None:
    people(30, seed=1).drop("city").write_csv(tmp_path / "control.csv")
    files = ["-o", tmp_path / "r.csv", "--report", tmp_path / "r.html"]
    result = run(source, *files, "--control", tmp_path / "control.csv")
    assert isinstance(result.exception, TulleError)
    assert "control.csv has no column 'city'" in str(result.exception)
    assert not (tmp_path / "r.csv").exists()


def test_a_target_alone_is_no_table(tmp_path: Path) -> None:
    people().select("ill").write_csv(tmp_path / "t.csv")
    result = run(tmp_path / "t.csv", "-o", tmp_path / "r.csv", "--target", "ill")
    assert "'ill'" in str(result.exception)


def test_a_query_without_records_is_not_told(tmp_path: Path) -> None:
    table = f"sqlite:///{tmp_path}/d.db"
    write_table(people(5), f"{table}#people")
    result = run(f"{table}#SELECT * FROM people WHERE name = 'Smith'", "-o", tmp_path / "r.csv")
    assert "has no records" in str(result.exception)
    assert "Smith" not in str(result.exception)


@pytest.mark.slow
def test_without_its_report_nothing_is_released(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tulle.auditing.Audit.save", full)
    result = run(source, "-o", tmp_path / "r.csv", "--report", tmp_path / "r.html")
    assert isinstance(result.exception, TulleError)
    assert "No space left on device); nothing was released" in str(result.exception)
    assert {path.name for path in tmp_path.iterdir()} == {source.name}


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--target", "ill")])
def test_one_figure_under_one_name_in_summary_report_and_audit(
    options: tuple, tmp_path: Path
) -> None:
    source, release, report = tmp_path / "p.csv", tmp_path / "r.csv", tmp_path / "r.json"
    holes = pl.Series(np.random.default_rng(1).random(90) < 0.1)
    people().with_columns(income=pl.when(~holes).then("income")).write_csv(source)
    wanted = ["--k", 5, "--seed", 1, "--accept-risk", "a test", *options]
    with_report = run(source, "-o", release, *wanted, "--report", report, "--json")
    without = run(source, "-o", tmp_path / "again.csv", *wanted, "--json")
    audited = CliRunner().invoke(tulle, ["audit", str(source), str(release), "--json"])
    figures = [
        json.loads(with_report.stdout)["covariance_compatibility"],
        json.loads(without.stdout)["covariance_compatibility"],
        json.loads(report.read_text())["metrics"]["covariance_compatibility"],
        json.loads(audited.stdout)["covariance_compatibility"],
    ]
    assert figures == pytest.approx([figures[0]] * 4, rel=1e-12)


@pytest.mark.slow
def test_exact_moments_beyond_public_bounds_are_released(source: Path, tmp_path: Path) -> None:
    policy, income = tmp_path / "p.toml", read_table(source)["income"]
    assert CliRunner().invoke(tulle, ["inspect", str(source), "-o", str(policy)]).exit_code == 0
    bounds = f"[columns.income]\nbounds = [{income.min()}, {income.max()}]"
    policy.write_text(policy.read_text().replace("[columns.income]", bounds))
    options = ["--policy", policy, "--k", 20, "--exact-moments", "--seed", 0, "--json"]
    result = run(source, "-o", tmp_path / "r.csv", *options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["covariance_compatibility"] > 0.8
    assert read_table(tmp_path / "r.csv")["income"].max() > income.max()


@pytest.mark.slow
def test_pairs_are_never_released_as_they_are(source: Path, tmp_path: Path) -> None:
    result = run(source, "-o", tmp_path / "r.csv", "--k", 2, "--exact-moments", "--seed", 0)
    assert isinstance(result.exception, TulleError)
    assert result.exception.exit_code == 1
    assert not list(tmp_path.glob("r.csv*"))


@pytest.mark.slow
def test_the_digest_is_of_the_source_that_was_read(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    condensed = workflow.make_release
    read = shutil.copy(source, tmp_path / "read.csv")

    def meanwhile(*arguments: object) -> object:
        people(91, seed=1).write_csv(source)
        return condensed(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(workflow, "make_release", meanwhile)
    assert run(source, "-o", tmp_path / "r.csv").exit_code == 0
    checked = verify_release(tmp_path / "r.csv", source=read)
    assert checked[-1] == {"check": "made from the source", "holds": True, "detail": "HMAC-SHA256"}
    assert verify_release(tmp_path / "r.csv", source=source)[-1]["holds"] is False


def plain_people(n: int) -> pl.DataFrame:
    """Return people of whom nobody stands out."""
    rng = np.random.default_rng(5)
    age = rng.integers(20, 80, n)
    wage = (age * 40 + rng.normal(0, 400, n)).round(-1)
    return pl.DataFrame({"age": age, "wage": wage, "town": rng.choice(["Bern", "Chur"], n)})


@pytest.fixture(scope="module")
def plain_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plain_people(240).write_csv(place := tmp_path_factory.mktemp("plain") / "people.csv")
    return place


@pytest.mark.slow
@pytest.mark.usefixtures("every_split")
def test_without_k_one_is_chosen_judged_by_others_and_made_from_everybody(
    plain_table: Path, tmp_path: Path
) -> None:
    release, report = tmp_path / "r.csv", tmp_path / "r.json"
    options = ["--seed", 1, "--report", report]
    told = json.loads(run(plain_table, "-o", release, *options, "--json").stdout)
    chosen, tried = told["chosen"], told["chosen"]["tried"]
    assert chosen["k"] in [row["k"] for row in tried if row["for"] == "confirming"]
    assert tried[0] == tried[0] | {"k": 10, "for": "choosing"}
    assert told["verdict"]["privacy"]["level"] in ("good", "caution")  # it decides
    assert f"k = {chosen['k']}" in chosen["why"]
    assert chosen["why"] in " ".join(told["notes"])
    assert told["records"] == told["released"] == 240
    assert "kept_apart" not in told
    parameters = read_manifest(release).parameters
    assert parameters["k"] == chosen["k"]
    assert [(row["k"], row["privacy"]) for row in parameters["chosen"]] == [
        (row["k"], row["privacy"]) for row in tried
    ]
    audit = json.loads(report.read_text())
    assert audit["attacks"]["linkage"]["control"] is not None
    assert re.match("(9|18|27) releases of two thirds", audit["provenance"]["attacked"])
    assert "Which k" in [section["title"] for section in audit["sections"]]
    shown = run(plain_table, "-o", tmp_path / "again.csv", "--seed", 1).output
    assert "confirming" in shown
    assert chosen["why"] in shown
    assert (tmp_path / "again.csv").read_bytes() == release.read_bytes()


@pytest.mark.slow
def test_a_k_that_is_given_stays_and_quick_makes_fewer_releases(
    plain_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_split: None
) -> None:
    made: list[int] = []
    condensed = workflow.make_release

    def watched(table: pl.DataFrame, *arguments: object) -> object:
        made.append(table.height)
        return condensed(table, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(workflow, "make_release", watched)
    result = run(plain_table, "-o", tmp_path / "r.csv", "--k", 20, "--seed", 1, "--quick", "--json")
    assert json.loads(result.stdout)["chosen"] == {"k": 20, "tried": [], "why": "it was given"}
    assert made == [240, 160, 160, 160]
    run(plain_table, "-o", tmp_path / "n.csv", "--no-audit", "--seed", 1)
    assert made[4:] == [240]


@pytest.mark.slow
def test_people_who_are_kept_apart_by_hand_judge_the_k_that_others_chose(
    plain_table: Path, tmp_path: Path
) -> None:
    options = ["--holdout", "25%", "--seed", 1, "--json"]
    told = json.loads(run(plain_table, "-o", tmp_path / "r.csv", *options).stdout)
    assert (told["records"], told["kept_apart"]) == (180, 60)
    assert [row["for"] for row in told["chosen"]["tried"]].count("confirming") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("every_split")
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_where_no_k_passes_a_column_is_named_without_which_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    condensed = workflow.make_release

    def leaky(table: pl.DataFrame, *arguments: object) -> object:
        condenser, release = condensed(table, *arguments)  # type: ignore[arg-type]
        return condenser, table.with_columns(pl.col("wage") + 1) if table.width == 4 else release

    monkeypatch.setattr(workflow, "make_release", leaky)
    wide = plain_people(900).with_columns(wage2=pl.col("wage").reverse())
    write_table(wide, tmp_path / "wide.csv")
    result = run(tmp_path / "wide.csv", "-o", tmp_path / "r.csv", "--seed", 4, "--json")
    step = json.loads(result.stdout)["verdict"]["privacy"]["next"]
    assert re.fullmatch("Leave out column '[a-z0-9]+': .* without it pass at k = [0-9]+.", step)


@pytest.mark.slow
@pytest.mark.usefixtures("every_split")
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_a_way_that_leaks_at_every_size_is_refused_with_the_best_that_was_tried(
    plain_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    condensed = workflow.make_release

    def leaky(table: pl.DataFrame, *arguments: object) -> object:
        condenser, _ = condensed(table, *arguments)  # type: ignore[arg-type]
        return condenser, table

    monkeypatch.setattr(workflow, "make_release", leaky)
    result = run(plain_table, "-o", tmp_path / "r.csv", "--seed", 1, "--json")
    told = json.loads(result.stdout)
    assert isinstance(result.exception, TulleError)
    assert not (tmp_path / "r.csv").exists()
    assert told["written"] is False
    assert told["verdict"]["privacy"]["level"] == "bad"
    assert f"no k passes: 10, 15, 20; the best is k = {told['chosen']['k']}" in str(
        result.exception
    )


@pytest.mark.slow
@pytest.mark.usefixtures("every_split")
def test_a_refused_k_comes_with_a_larger_one_that_was_tried(
    plain_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    condensed = workflow.make_release

    def leaky(table: pl.DataFrame, columns: object, rules: object, options: Any) -> object:
        condenser, release = condensed(table, columns, rules, options)  # type: ignore[arg-type]
        return condenser, table if options.k == 10 else release

    monkeypatch.setattr(workflow, "make_release", leaky)
    result = run(plain_table, "-o", tmp_path / "r.csv", "--k", 10, "--seed", 1, "--json")
    told = json.loads(result.stdout)
    assert told["written"] is False
    assert told["chosen"] == {"k": 10, "tried": [], "why": "it was given"}
    step = told["verdict"]["privacy"]["next"]
    assert re.fullmatch(r"Take k = (15|20), which passes\.", step)
    assert step in str(result.exception)


def test_help_says_which_group_size_is_used() -> None:
    words = " ".join(run("--help").output.replace("│", " ").split())
    assert "Default: the smallest of 10 to 100 that passes" in words


@pytest.mark.slow
def test_rare_values_go_up_a_hierarchy_or_are_kept_by_choice(tmp_path: Path) -> None:
    codes = ["I10"] * 60 + ["Q90.9"] * 6 + ["Q90.1"] * 6 + ["E84.0"] * 3
    table = pl.DataFrame({"icd": codes, "ward": codes, "age": [30 + i % 40 for i in range(75)]})
    write_table(table, tmp_path / "t.csv")
    policy = tmp_path / "p.toml"
    policy.write_text(
        '[columns.icd]\nkind = "category"\nrole = "sensitive"\nhierarchy = [3, 1]\n'
        '[columns.ward]\nkind = "category"\nrole = "sensitive"\nkeep_rare = true\n'
        '[columns.age]\nkind = "integer"\nrole = "quasi-identifier"\n'
    )
    options = ["--policy", policy, "--k", 5, "--seed", 0, "--json"]
    result = run(tmp_path / "t.csv", "-o", tmp_path / "r.csv", *options)
    assert result.exit_code == 0, result.output
    release = read_table(tmp_path / "r.csv")
    assert set(release["icd"].unique()) <= {"I10", "Q90.9", "Q90.1", "Q90", "E84", "E", "other"}
    assert "E84.0" not in release["icd"]
    entries = read_manifest(tmp_path / "r.csv").columns
    assert entries["icd"]["hierarchy"] == [3, 1]
    assert entries["ward"]["keep_rare"] is True
    notes = json.loads(result.stdout)["notes"]
    assert any("'ward' keeps values" in note for note in notes)
    assert any("'icd'" in note and "merged" in note for note in notes)


def test_a_k_that_is_chosen_is_the_size_of_groups_in_every_class(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = {"a": 105, "b": 175}  # whose blocks of ten have the common divisor 5
    table = pl.DataFrame(
        {
            "x": rng.normal(size=280).round(2),
            "y": rng.integers(20, 60, 280),
            "class": [name for name, size in sizes.items() for _ in range(size)],
        }
    )
    table.write_csv(tmp_path / "table.csv")
    done = workflow.condense(
        tmp_path / "table.csv", tmp_path / "r.csv", target="class", seed=0, quick=True
    )
    chosen = done.summary["chosen"]
    assert chosen["k"] in {row["k"] for row in chosen["tried"]}
    assert chosen["k"] < 50
