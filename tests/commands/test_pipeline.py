"""The recipes for pipelines do what their page says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import duckdb
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tests.servers import postgres_server
from tulle.cli import tulle
from tulle.io.read import read_table
from tulle.io.write import write_table

EXAMPLES = Path(__file__).parents[2] / "examples"


def people(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    return pl.DataFrame(
        {
            "age": age,
            "income": np.round(2000 + 20 * age + rng.normal(0, 400, n), 2),
            "city": rng.choice(["Bern", "Chur", "Genf"], n),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("copied", [False, True])
def test_the_pytest_recipe_passes_a_fair_release_and_fails_a_copy(
    copied: bool, tmp_path: Path
) -> None:
    shutil.copytree(EXAMPLES / "pipeline", tmp_path / "checks")
    names = {part: str(tmp_path / f"{part}.csv") for part in ("ORIGINAL", "RELEASE", "CONTROL")}
    tables = [people(500, 1), people(500, 1 if copied else 2), people(500, 3)]
    for table, name in zip(tables, names.values()):
        write_table(table, name)
    environment = {**os.environ, **{f"TULLE_{part}": name for part, name in names.items()}}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path / "checks"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == int(copied), done.stdout
    assert copied == ("max_copies is 1" in done.stdout)


@pytest.mark.slow
def test_the_dbt_test_returns_a_row_where_a_bad_release_was_accepted() -> None:
    query = (EXAMPLES / "dbt" / "tests" / "release_is_verified.sql").read_text()
    query = query.replace("{{ source('tulle', 'patients_release_manifest') }}", "r_manifest")
    with postgres_server() as database:
        write_table(people(400, 1), f"{database}#patients")
        asked = ["condense", f"{database}#patients", "-o", f"{database}#r", "--json", "--force"]
        fair = CliRunner().invoke(tulle, [*asked, "-k", "40", "--holdout", "30%", "--seed", "1"])
        assert fair.exit_code == 0, fair.output
        assert json.loads(fair.stdout)["verdict"]["privacy"]["level"] != "bad"
        assert read_table(f"{database}#{query}").height == 0
        table = read_table(f"{database}#r_manifest")
        bad = json.loads(table["manifest"][0])
        bad["verdict"]["privacy"]["level"] = "bad"
        write_table(
            pl.DataFrame({"manifest": [json.dumps(bad)]}), f"{database}#r_manifest", force=True
        )
        assert read_table(f"{database}#{query}").height == 1


@pytest.mark.parametrize("level, rows", [("good", 0), ("caution", 0), ("bad", 1), (None, 1)])
def test_the_dbt_test_also_reads_duckdb(level: str | None, rows: int) -> None:
    query = (EXAMPLES / "dbt" / "tests" / "release_is_verified.sql").read_text()
    query = query.replace("{{ source('tulle', 'patients_release_manifest') }}", "kept")
    manifest = json.dumps({"verdict": {"privacy": {"level": level}} if level else {}})
    with duckdb.connect() as base:
        base.execute("CREATE TABLE kept (manifest VARCHAR)")
        base.execute("INSERT INTO kept VALUES (?)", [manifest])
        assert len(base.execute(query).fetchall()) == rows


@pytest.mark.parametrize("place", ["airflow", "dagster"])
def test_recipes_name_options_that_there_are(place: str) -> None:
    (recipe,) = (EXAMPLES / place).glob("*.py")
    words = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", recipe.read_text()))
    known = {word for option in command_named("condense").params for word in option.opts}
    assert words <= known
    assert {"-o", "--k", "--report", "--force", "--json"} <= words


def command_named(name: str) -> click.Command:
    found = tulle.get_command(click.Context(tulle), name)
    assert found is not None
    return found
