from __future__ import annotations

import errno
import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from sklearn.datasets import load_iris

from tulle.cli import tulle
from tulle.errors import DataError, ParameterError, TulleError
from tulle.io.read import read_table
from tulle.io.write import write_table
from tulle.releases import read_manifest
from tulle.table._frames import to_polars
from tulle.tuning import GroupSizeSearch


@pytest.fixture
def source(tmp_path: Path) -> Path:
    frame = to_polars(load_iris(as_frame=True).frame)
    write_table(frame, tmp_path / "iris.csv")
    return tmp_path / "iris.csv"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(tulle, ["tune", *map(str, arguments)])


@pytest.mark.slow
def test_tune_chooses_reports_and_releases(source: Path, tmp_path: Path) -> None:
    options = ["--target", "target", "--strategy", "grid", "--sizes", 3, "--repeats", 1]
    files = ["-o", tmp_path / "r.csv", "--report", tmp_path / "sizes.html"]
    result = run(source, *options, *files, "--seed", 0, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["sizes_tried"] == len(found["sizes"]) == 3
    assert found["reason"].startswith(f"k={found['chosen_k']}")
    assert {row["class"] for row in found["classes"]} == {"0", "1", "2"}
    assert read_manifest(tmp_path / "r.csv").parameters["k"] == found["chosen_k"]
    assert "Which group size?" in (tmp_path / "sizes.html").read_text()


@pytest.mark.slow
def test_a_report_that_cannot_be_written_is_told_with_what_was_found(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tulle._report.save", full)
    options = ["--target", "target", "--strategy", "grid", "--sizes", 2, "--repeats", 1]
    result = run(source, *options, "--seed", 0, "--report", tmp_path / "r.html")
    assert isinstance(result.exception, TulleError)
    assert "No space left on device); the search chose groups of" in str(result.exception)


@pytest.mark.slow
def test_tune_without_target_or_inside_impossible_limits(source: Path) -> None:
    assert "--target" in str(run(source).exception)
    result = run(
        source, "--target", "target", "--repeats", 1, "--min-accuracy-ratio", 5, "--seed", 0
    )
    assert isinstance(result.exception, TulleError)
    assert result.exception.exit_code == 1
    assert "the nearest is k=" in str(result.exception)


def test_levels_leave_no_size_to_find(source: Path, tmp_path: Path) -> None:
    table = read_table(source).with_columns(asked=3)
    write_table(table, tmp_path / "levels.csv")
    kinds = dict.fromkeys(table.columns, "decimal") | {"target": "category", "asked": "integer"}
    roles = dict.fromkeys(table.columns, "sensitive") | {"target": "target", "asked": "level"}
    lines = [f'[columns."{n}"]\nkind = "{k}"\nrole = "{roles[n]}"' for n, k in kinds.items()]
    (tmp_path / "p.toml").write_text("\n".join(lines))
    result = run(tmp_path / "levels.csv", "--policy", tmp_path / "p.toml")
    assert isinstance(result.exception, TulleError)
    assert "no size to find" in str(result.exception)


@pytest.mark.parametrize("strategy", [[], ["--strategy", "gcd"]])
def test_sizes_are_those_of_a_grid(source: Path, strategy: list[str]) -> None:
    result = run(source, "--target", "target", "--sizes", 5, *strategy)
    assert isinstance(result.exception, TulleError)
    assert "--sizes is for --strategy grid" in str(result.exception)


def test_what_cannot_be_released_is_refused_before_the_search(source: Path, tmp_path: Path) -> None:
    table = read_table(source)
    words = pl.Series(["a", "b", None] * 50)
    write_table(table.with_columns(target=words), tmp_path / "missing.csv")
    result = run(tmp_path / "missing.csv", "--target", "target", "--strategy", "gcd")
    assert "the target 'target' is missing (null or NaN) in 50 records" in str(result.exception)
    days = pl.Series(range(150)).cast(pl.Date)
    write_table(table.with_columns(target=days), tmp_path / "days.csv")
    result = run(tmp_path / "days.csv", "--target", "target", "--strategy", "gcd")
    assert "neither numbers nor" in str(result.exception)
    names = ["-o", tmp_path / "r.csv", "--report", tmp_path / "r.csv.manifest.json"]
    assert "same file" in str(run(source, "--target", "target", *names).exception)
    assert not list(tmp_path.glob("r.csv*"))


def test_columns_that_are_ignored_may_hold_lists(source: Path, tmp_path: Path) -> None:
    lists = read_table(source).with_columns(l=pl.Series([[1, 2]] * 150))
    lists.write_parquet(tmp_path / "lists.parquet")
    options = ["--target", "target", "--strategy", "gcd", "--repeats", 1, "--seed", 0]
    assert run(tmp_path / "lists.parquet", *options).exit_code == 0


@pytest.mark.slow
def test_whole_numbers_that_are_mostly_different_are_no_classes(tmp_path: Path) -> None:
    """However small the table is: thirty salaries of thirty people are a quantity."""
    ages, salaries = ([20 + 7 * i % 23 for i in range(30)], [2000 + 37 * i for i in range(30)])
    table = pl.DataFrame({"age": ages, "salary": salaries})
    write_table(table, tmp_path / "staff.csv")
    options = ["--target", "salary", "--strategy", "grid", "--sizes", 2, "--repeats", 1]
    result = run(tmp_path / "staff.csv", *options, "--seed", 0, "-o", tmp_path / "r.csv", "--json")
    assert result.exit_code == 0, result.exception
    assert json.loads(result.stdout)["classes"] == []
    assert read_manifest(tmp_path / "r.csv").method == "condensation"


@pytest.mark.parametrize(
    "options, words",
    [
        (["--repeats", 0], "--repeats must be an int in the range [1, inf). Got 0"),
        (
            ["--strategy", "grid", "--sizes", 0],
            "--sizes must be an int in the range [1, inf). Got 0",
        ),
        (["--min-group", 1], "--min-group must be an int in the range [2, inf). Got 1"),
        (["--min-group", 7, "--max-group", 5], "--min-group: min_group=7 is above max_group=5"),
    ],
)
def test_numbers_are_refused_by_the_names_of_their_options(
    source: Path, options: list[object], words: str
) -> None:
    result = run(source, "--target", "target", *options)
    assert isinstance(result.exception, TulleError)
    assert words in str(result.exception)


def test_the_rule_and_brute_force_are_shown_side_by_side(source: Path) -> None:
    paper = ["--synthesis", "uniform", "--grouping", "modified", "--scoring", "accuracy"]
    asked = ["--target", "target", "--strategy", "both", "--repeats", 1, "--min-group", 10]
    found = json.loads(run(source, *asked, *paper, "--seed", 0, "--json").stdout)
    rule, brute = found["strategies"]
    assert (rule["strategy"], brute["strategy"]) == ("rule", "brute force")
    assert brute["sizes_tried"] == len(range(10, 45 + 1, 10))
    assert {rule["k"], brute["k"]} <= {row["k"] for row in found["sizes"]}
    assert rule["sizes_tried"] + brute["sizes_tried"] >= found["sizes_tried"]
    assert all(row["interval"] >= row["privacy"] for row in found["sizes"])


def test_a_section_condense_is_obeyed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def watched(self: GroupSizeSearch, X: object, y: object) -> None:
        asked.append(self.estimator.condenser)
        raise DataError("enough seen")

    monkeypatch.setattr(GroupSizeSearch, "fit", watched)
    policy = tmp_path / "p.toml"
    policy.write_text('[condense]\ngrouping = "original"\nsynthesis = "normal"\n')
    run(source, "--target", "target", "--policy", policy)
    run(source, "--target", "target", "--policy", policy, "--synthesis", "mean")
    found = [(one.grouping, one.synthesis) for one in asked]
    assert found == [("original", "normal"), ("original", "mean")]


def test_only_a_target_of_numbers_has_a_weight(source: Path) -> None:
    error = run(source, "--target", "target", "--target-weight", 3).exception
    assert isinstance(error, ParameterError)
    assert "--target-weight is for a target of numbers" in str(error)


@pytest.mark.slow
def test_a_size_is_searched_for_another_miner(source: Path) -> None:
    table = read_table(source)
    write_table(table.select(pl.nth(0, 1), "target"), source, force=True)  # classes overlap
    asked = ["--target", "target", "--strategy", "grid", "--sizes", 2, "--repeats", 1, "--seed", 4]
    scores = {}
    for miner in ("nearest", "svm", "tree", "linear"):
        result = run(source, *asked, "--miner", miner, "--json")
        assert result.exit_code == 0, (result.output, result.exception)
        scores[miner] = json.loads(result.stdout)["original_utility"]
    assert len(set(scores.values())) > 1, scores
