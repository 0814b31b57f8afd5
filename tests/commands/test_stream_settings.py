"""Options of a stream: checked before anything is read, and kept while it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from tests.reference.streams import rows, write_ndjson
from tulle._commands._stream_settings import Settings, Streaming
from tulle._commands.condense import condense
from tulle._commands.stream import stream
from tulle.cli import tulle
from tulle.errors import DataError, ParameterError, PolicyError
from tulle.releases import read_manifest

pytestmark = pytest.mark.slow

ROLES = {"age": "integer", "income": "decimal", "city": "category", "level": "integer"}
HUGE = 10**30


def write_policy(path: Path, told: str = "", **entries: str) -> Path:
    """A policy of the columns of ``rows``; entries replace what it says of a column."""
    plain = {
        name: f'kind = "{kind}"\nrole = "quasi-identifier"'
        for name, kind in {**ROLES, "kind": "category"}.items()
    }
    sections = [f"[columns.{name}]\n{text}\n" for name, text in (plain | entries).items()]
    path.write_text("".join(sections) + f"[stream]\n{told}\n")
    return path


@pytest.mark.parametrize("again", ["4..6", None])
def test_levels_are_drawn_for_a_trial_and_afresh_where_it_resumes(
    tmp_path: Path, again: str | None
) -> None:
    records = [{n: v for n, v in row.items() if n != "level"} for row in rows(300)]
    source = write_ndjson(tmp_path / "in.ndjson", records[:200])
    places = {"state": tmp_path / "st", "init": 60, "grouping": "levels"}
    first = stream(str(source), tmp_path / "out", levels="4..6", **places)
    assert any("drawn" in note for note in first.notes)
    assert first.summary["smallest_group"] >= 4
    write_ndjson(source, records)
    second = stream(str(source), tmp_path / "out", levels=again, **places)
    assert second.summary["seen"] == 300
    assert second.summary["rejected"] == 0
    with pytest.raises(ParameterError, match="did not start with '4..9'"):
        stream(str(source), tmp_path / "out", levels="4..9", **places)


def seen_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ('snapshots = "bouned"', "one of 'bounded', 'all'.*did you mean 'bounded'"),
        ('snapshots = "none"', "must be one of 'bounded', 'all'"),
        ("snapshots = true", "must be one of 'bounded', 'all'"),
        ('split = "strickt"', "did you mean 'strict'"),
        ('synthesis = "unifrm"', "did you mean 'uniform'"),
        ('grouping = "fats"', "did you mean 'fast'"),
        ("every = 0", r"'every' in \[stream\] must be an int in the range \[1, "),
        ("every = -5", "'every'"),
        ("every = 2.5", "'every'"),
        ('every = "a"', "'every'"),
        ('k = "x"', r"'k' .* in the range \[2, "),
        ("k = 1", "'k'"),
        ("k = true", "'k'"),
        (f"k = {HUGE}", "'k'"),
        ('init = "many"', "'init'"),
        ("init = -3", "'init'"),
        ("init = 1.5", "'init'"),
        ("rows = 0", "'rows'"),
        ("seed = -1", "'seed'"),
        ("seconds = -1", r"'seconds' .* must be a number in the range \[0\.1, inf\)"),
        ("seconds = nan", "'seconds'"),
        ("seconds = inf", "'seconds'"),
        (f"seconds = {'9' * 400}", "'seconds'"),
        (f"seconds = -{'9' * 400}", "'seconds'"),
        (f"seconds = {'9' * 5_000}", "not valid TOML"),
        ('checkpoint = "zzz"', "'checkpoint'"),
        ("checkpoint = nan", "'checkpoint'"),
        ("checkpoint = -0.5", "'checkpoint'"),
        ('snapshot = "all"', "no option 'snapshot': did you mean 'snapshots'"),
    ],
)
def test_a_policy_with_a_wrong_value_is_refused_before_anything_is_read(
    told: str, words: str, tmp_path: Path
) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text(f"[stream]\n{told}\n")
    with pytest.raises(PolicyError, match=f"(?s)p\\.toml: .*{words}"):
        stream("-", tmp_path / "out", state=tmp_path / "st", policy=policy)
    assert seen_files(tmp_path) == ["p.toml"]


@pytest.mark.parametrize(
    "option",
    [
        {"snapshots": "bouned"},
        {"every": 0},
        {"k": HUGE},
        {"rows": 2.0},
        {"seconds": float("nan")},
        {"checkpoint": float("inf")},
        {"snapshot": "bounded"},
    ],
)
def test_so_is_an_option(option: dict[str, Any], tmp_path: Path) -> None:
    name = next(iter(option))
    with pytest.raises(ParameterError, match=f"--{name} must be|no option '{name}'"):
        stream("-", tmp_path / "out", state=tmp_path / "st", **option)
    assert seen_files(tmp_path) == []


@pytest.mark.parametrize("option", ["--seconds=nan", "--checkpoint=nan", f"--k={HUGE}"])
def test_the_command_line_is_checked_by_the_same_code(option: str, tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(60))
    arguments = [str(source), "-o", str(tmp_path / "out"), "--state", str(tmp_path / "st")]
    done = CliRunner().invoke(tulle, ["stream", *arguments, option])
    assert isinstance(done.exception, ParameterError)
    assert seen_files(tmp_path) == ["in.ndjson"]


def test_what_is_allowed_is_taken_as_it_is(tmp_path: Path) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text(
        '[stream]\nk = 40\ninit = 2\nevery = 1\nseconds = 1\ncheckpoint = 0\nsplit = "strict"\n'
    )
    settings = Settings(policy, None, None, None, {"every": 7, "rows": None})
    told = {"k": 40, "init": 80, "every": 7, "seconds": 1.0, "checkpoint": 0.0, "split": "strict"}
    assert settings.options.values() == Streaming().values() | told


def test_the_same_policy_goes_on_and_says_what_the_state_says(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    told = 'k = 5\ninit = 60\nsnapshots = "all"'
    age = 'kind = "integer"\nrole = "quasi-identifier"\nbounds = [0, 120]\nweight = 2'
    policy = write_policy(tmp_path / "p.toml", told, age=age)
    options: dict[str, Any] = {"state": tmp_path / "st", "seed": 1}
    stream(str(source), tmp_path / "out", policy=policy, **options)
    again: list[dict[str, Any]] = [{"policy": policy}, {}, {"policy": policy, "k": 5}]
    for number, more in enumerate(again, 1):
        write_ndjson(source, rows(20, seed=number), "a")
        done = stream(str(source), tmp_path / "out", **more, **options)
        assert done.summary["seen"] == 120 + 20 * number
    manifest = json.loads((tmp_path / "out" / "snapshot-000004.parquet.manifest.json").read_text())
    assert manifest["parameters"]["k"] == 5
    assert manifest["parameters"]["snapshots"] == "all"


@pytest.mark.parametrize(
    ("told", "entries", "words"),
    [
        ("k = 50", {}, r"k=5.*50.*p2\.toml"),
        ('split = "strict"', {}, "split=paper"),
        ('snapshots = "bounded"', {}, "snapshots=all"),
        ('synthesis = "mean"', {}, "synthesis=shape"),
        ("", {"city": 'kind = "category"\nrole = "identifier"'}, r"'city'.*p2\.toml"),
        ("", {"city": 'kind = "text"\nrole = "quasi-identifier"'}, "'city'"),
        (
            "",
            {"age": 'kind = "integer"\nrole = "quasi-identifier"\nbounds = [0, 120]'},
            r"'age'.*0\.0.*120\.0",
        ),
        (
            "",
            {"age": 'kind = "integer"\nrole = "quasi-identifier"\nweight = 2'},
            r"1\.0 as.*'age'.*2\.0",
        ),
    ],
)
def test_another_policy_does_not_go_on(
    told: str, entries: dict[str, str], words: str, tmp_path: Path
) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    first = write_policy(tmp_path / "p1.toml", 'k = 5\ninit = 60\nsnapshots = "all"')
    stream(str(source), tmp_path / "out", state=tmp_path / "st", policy=first)
    write_ndjson(source, rows(20, seed=1), "a")
    before = (tmp_path / "st").read_bytes()
    second = write_policy(tmp_path / "p2.toml", told, **entries)
    with pytest.raises(ParameterError, match=words):
        stream(str(source), tmp_path / "out", state=tmp_path / "st", policy=second)
    assert (tmp_path / "st").read_bytes() == before
    assert not (tmp_path / "out" / "snapshot-000002.parquet").exists()


def test_a_policy_of_other_columns_does_not_go_on(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    options: dict[str, Any] = {"state": tmp_path / "st", "k": 5, "init": 60}
    stream(str(source), tmp_path / "out", **options)
    policy = write_policy(tmp_path / "p.toml", hair='kind = "category"\nrole = "sensitive"')
    with pytest.raises(PolicyError, match="'hair'"):
        stream(str(source), tmp_path / "out", policy=policy, **options)
    policy.write_text('[columns.age]\nkind = "integer"\nrole = "quasi-identifier"\n')
    with pytest.raises(PolicyError, match="'income'"):
        stream(str(source), tmp_path / "out", policy=policy, **options)


def test_roles_that_options_replaced_may_stay_in_the_policy(tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(120))
    policy = write_policy(tmp_path / "p.toml", "init = 60")
    options: dict[str, Any] = {"state": tmp_path / "st", "policy": policy}
    stream(str(source), tmp_path / "out", levels="level", target="kind", **options)
    again: list[dict[str, Any]] = [{"levels": "level"}, {}, {"levels": "level", "target": "kind"}]
    for more in again:
        stream(str(source), tmp_path / "out", **more, **options)
    write_policy(policy, "init = 60", kind='kind = "category"\nrole = "identifier"')
    with pytest.raises(ParameterError, match="'kind'"):
        stream(str(source), tmp_path / "out", **options)


def test_one_column_is_not_both_target_and_levels(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="--target.*--levels.*'level'"):
        stream("-", tmp_path / "out", state=tmp_path / "st", target="level", levels="level")
    assert seen_files(tmp_path) == []
    source = write_ndjson(tmp_path / "in.ndjson", rows(60))
    with pytest.raises(ParameterError, match="'level'"):
        condense(source, tmp_path / "out.csv", target="level", levels="level")
    with pytest.raises(DataError, match="'levle'"):
        condense(source, tmp_path / "out.csv", target="level", levels="levle")


def test_a_k_that_levels_replace_is_not_claimed(tmp_path: Path) -> None:
    table = pl.DataFrame(rows(120))
    both = [Settings(None, None, levels, None, {"k": 50}) for levels in ("level", None)]
    for settings in both:
        settings.plan(table)
    by_levels, by_k = (settings.parameters for settings in both)
    assert "k" not in by_levels
    assert by_k["k"] == 50
    assert by_levels.keys() | {"k", "seed"} == Streaming().values().keys()
    shown = CliRunner().invoke(tulle, ["stream", "--help"]).output
    assert "--k is not used" in " ".join(shown.replace("│", " ").split())


def test_the_papers_groups_and_draws_can_be_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "s.csv"
    source.write_text("x,y\n" + "".join(f"{n % 17},{n % 5}.5\n" for n in range(120)))
    asked = [
        "stream",
        source,
        "--state",
        tmp_path / "s.state",
        "-o",
        tmp_path / "out",
        "--init",
        60,
    ]
    paper = ["--grouping", "levels", "--synthesis", "uniform", "--seed", 1, "--json"]
    found = CliRunner().invoke(tulle, [*map(str, [*asked, *paper])])
    assert found.exit_code == 0, found.output
    header = read_manifest(next((tmp_path / "out").glob("*.parquet"))).parameters
    assert (header["grouping"], header["synthesis"]) == ("levels", "uniform")


def test_a_person_named_by_the_command_is_counted_once(tmp_path: Path) -> None:
    records = [row | {"who": number % 40} for number, row in enumerate(rows(600))]
    source = write_ndjson(tmp_path / "in.ndjson", records[:500])
    key = tmp_path / "made.key"
    asked = ["stream", source, "-o", tmp_path / "out", "--state", tmp_path / "st", "--init", 300,
             "--k", 5, "--split", "strict", "--person", "who", "--json"]  # fmt: skip

    def run(*more: object) -> Any:
        return CliRunner().invoke(tulle, [*map(str, asked), *map(str, more)])

    assert isinstance(run("--levels", "who").exception, ParameterError)
    first = run("--key", key)
    assert first.exit_code == 0, first.output
    told = json.loads(first.stdout)
    assert any("created" in note for note in told["notes"])
    assert any("count the distinct people in column 'who'" in note for note in told["notes"])
    assert key.stat().st_mode & 0o077 == 0
    shown = pl.read_parquet(next((tmp_path / "out").glob("*.parquet")))
    assert "who" not in shown.columns
    write_ndjson(source, records)
    assert json.loads(run("--key", key).stdout)["seen"] == 600
    other = CliRunner().invoke(tulle, [*map(str, asked), "--person", "city", "--key", str(key)])
    assert other.exit_code != 0
    assert "did not start with 'city' as its person" in str(other.exception)
    key.unlink()
    assert run("--key", key).exit_code != 0  # another key would not open the state
    assert not key.exists()
