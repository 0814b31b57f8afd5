"""What a summary says next to a snapshot: no more of the groups than the snapshot shows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference.streams import OPTIONS, rows, write_ndjson
from tulle import StreamCondenser
from tulle._commands.stream import stream
from tulle._files import digest
from tulle._report import markdown
from tulle.releases import read_manifest

pytestmark = pytest.mark.slow

K = 10


@pytest.mark.parametrize("policy", ["bounded", "all"])
def test_manifests_speak_of_the_groups_that_are_shown(policy: str, tmp_path: Path) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(500))
    done = stream(
        str(source),
        tmp_path / "out",
        state=tmp_path / "st",
        every=200,
        snapshots=policy,
        plain_waiting=True,
        **OPTIONS,
    )
    state = StreamCondenser.load(tmp_path / "st")._states[None]
    shown = state.groups if policy == "all" else state.published.shown
    used = shown.view()
    manifest = read_manifest(tmp_path / "out" / done.tables["releases"][-1]["snapshot"])
    counts = manifest.counts
    assert counts["groups"] == len(used.counts)
    assert "smallest_group" not in counts  # of levels, one person may have set it
    small = "groups smaller than a level in them (their statistics were split)"
    assert counts[small] == (used.counts < used.levels).sum()
    own = state.groups.view().counts
    assert done.summary["groups"] == len(own)
    assert done.summary["largest_group"] == own.max()


def newcomer_next_to(size: int, state: Path) -> dict[str, float]:
    """One who lies at the mean of a group of that size."""
    condenser = StreamCondenser.load(state)
    mean = condenser.means_[np.flatnonzero(condenser.counts_ == size)[0]]
    return dict(zip("ab", map(float, mean)))


def test_one_newcomer_who_is_held_back_changes_nothing_that_is_told(tmp_path: Path) -> None:
    """One joins a group that splits then, one a group that does not: manifests say the same."""
    rng = np.random.default_rng(2)
    before = tmp_path / "before"
    before.mkdir()
    write_ndjson(before / "in.ndjson", [dict(zip("ab", rng.normal(size=2))) for _ in range(300)])

    def run(folder: Path) -> dict[str, Any]:
        options: dict[str, Any] = {"k": K, "init": 100, "seed": 1, "report": folder / "report.json"}
        source = str(folder / "in.ndjson")
        return stream(source, folder / "out", state=folder / "st", force=True, **options).summary

    run(before)
    told = []
    for size in (2 * K - 1, K):
        after = tmp_path / str(size)
        shutil.copytree(before, after)
        write_ndjson(after / "in.ndjson", [newcomer_next_to(size, before / "st")], "a")
        told.append(run(after))
    split, grown = (tmp_path / str(size) / "out" for size in (2 * K - 1, K))
    assert told[0]["groups"] == told[1]["groups"] + 1  # their owner sees it
    one, other = (read_manifest(out / "snapshot-000002.parquet") for out in (split, grown))
    first = read_manifest(split / "snapshot-000001.parquet")
    assert (one.counts, one.verified) == (other.counts, other.verified)
    for name in ("groups", "smallest_group", "largest_group", "released"):
        assert one.counts[name] == first.counts[name]
    for number in (1, 2):
        path = split / f"snapshot-{number:06d}.parquet"
        assert digest(path) == digest(grown / "snapshot-000002.parquet")
    public = [json.loads((out.parent / "report.json").read_text()) for out in (split, grown)]
    for part in ("summary", "guarantee"):
        assert public[0][part] == public[1][part]


@pytest.mark.parametrize(("policy", "shown"), [("bounded", False), ("all", True)])
def test_the_public_report_does_not_count_groups_that_snapshots_hide(
    policy: str, shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_ndjson(tmp_path / "in.ndjson", rows(1_100))
    results: list[dict[str, Any]] = []
    monkeypatch.setattr("tulle._report.save", lambda result, *_, **__: results.append(result))
    options = {**OPTIONS, "state": tmp_path / "st", "snapshots": policy, "accept_risk": "a test"}
    stream(str(source), tmp_path / "out", report=tmp_path / "report.md", **options)
    assert "Progress of the stream" in markdown(results[0])
    assert ("Progress of the stream" in markdown(results[0], "public")) == shown
