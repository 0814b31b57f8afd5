"""The watcher of two snapshots, played with a stream's own groups."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.reference.streams import rows, write_ndjson
from tulle import StreamCondenser
from tulle._attacks.result import AttackResult
from tulle._commands._stream_snapshots import watch
from tulle._commands.stream import stream as run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stream() -> StreamCondenser:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_500, 4)) @ rng.normal(size=(4, 4))
    return StreamCondenser(k=10, synthesis="mean", random_state=0).partial_fit(X)


def found(stream: StreamCondenser, policy: str, together: bool) -> list[AttackResult]:
    return watch(stream, policy, np.random.default_rng(1), together=together)


def test_one_who_comes_alone_is_found_where_all_groups_are_shown(stream: StreamCondenser) -> None:
    totals, rows = found(stream, "all", together=False)
    assert totals.rate > 0.95
    assert rows.rate > 0.5


def test_bounded_snapshots_hide_one_who_comes_alone(stream: StreamCondenser) -> None:
    assert all(attack.failed for attack in found(stream, "bounded", together=False))


@pytest.mark.parametrize("policy", ["all", "bounded"])
def test_in_company_of_a_whole_level_hardly_anybody_is_found(
    stream: StreamCondenser, policy: str
) -> None:
    """By guessing: one in ten."""
    assert max(attack.rate for attack in found(stream, policy, together=True)) < 0.3


def test_classes_and_strict_splits_are_watched_too() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.integers(2, size=400)
    stream = StreamCondenser(k=5, classwise=True, split="strict", random_state=0).partial_fit(X, y)
    assert len(found(stream, "bounded", together=True)) == 2


def test_a_report_judges_snapshots_by_repeated_splits(tmp_path: Path) -> None:
    """The source is read again: each record is in some streams, and a stranger to others."""
    made = [{name: row[name] for name in ("age", "income", "city")} for row in rows(500)]
    source = write_ndjson(tmp_path / "in.ndjson", [*made, {"age": "x"}])
    asked = {"k": 10, "init": 100, "seed": 0, "accept_risk": "a test", "state": tmp_path / "st"}
    done = run(str(source), tmp_path / "out", report=tmp_path / "report.json", **asked)
    told = json.loads((tmp_path / "report.json").read_text())
    assert "no attack was tried" not in done.verdict["privacy"]["reason"]
    assert done.verdict["use"]["level"] != "undecided"
    assert told["attacks"]["membership"]["control_attempts"] > 0
    assert told["provenance"]["judged on"].startswith("the first 500 records")
    assert told["title"].startswith("Stream condensed from")
