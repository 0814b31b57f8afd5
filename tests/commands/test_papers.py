"""What the papers do, by command, where no other test goes the same way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tulle._commands.condense import condense

pytestmark = pytest.mark.slow
PAPER: dict[str, object] = {"grouping": "levels", "synthesis": "uniform", "quick": True, "seed": 1}


@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
@pytest.mark.parametrize("levels", ["level", "4..8"])
def test_each_class_is_condensed_at_the_levels_of_its_records(tmp_path: Path, levels: str) -> None:
    """Paper 000, section 4: levels of a column, or drawn between alpha - beta and alpha."""
    rng = np.random.default_rng(0)
    kind = rng.choice(["ill", "well"], 120)
    table = pl.DataFrame(
        {
            "age": np.round(rng.normal(50, 9, 120) + 9 * (kind == "ill")),
            "weight": np.round(rng.normal(70, 12, 120), 1),
            "kind": kind,
            "level": rng.integers(4, 9, 120),
        }
    )
    table.drop([] if levels == "level" else ["level"]).write_csv(tmp_path / "people.csv")
    done = condense(
        tmp_path / "people.csv", tmp_path / "out.csv", levels=levels, target="kind",
        accept_risk="groups of four are the paper's", **PAPER,
    )  # fmt: skip
    assert done.summary["chosen"]["k"] is None
    rows = done.tables["levels"]
    assert {row["level"] for row in rows} == set(range(4, 9))
    assert all(row["smallest_group"] >= row["level"] for row in rows)
    released = pl.read_csv(tmp_path / "out.csv")
    assert "level" not in released.columns
    assert released["kind"].value_counts(sort=True).equals(table["kind"].value_counts(sort=True))
