"""A data engineer's way: a folder of event files to snapshots that follow what arrives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tulle.cli import tulle

pytestmark = pytest.mark.slow

WIDTHS = (320, 768, 1024, 1920)


def arrive(folder: Path, name: str, start: int, count: int = 1_000, **more: Any) -> None:
    """Write a file of events as a shop's site logs them, with objects inside."""
    rng = np.random.default_rng(start)
    lines = []
    for number in range(start, start + count):
        price = round(float(rng.lognormal(3, 0.5)), 2)
        pieces = int(rng.integers(1, 5))
        event = {
            "event_id": f"e{number:08d}",
            "device": {"w": int(rng.choice(WIDTHS)), "os": str(rng.choice(["ios", "android"]))},
            "action": str(rng.choice(["view", "buy", "search"])),
            "age": int(rng.integers(14, 91)),
            "price": price,
            "pieces": pieces,
            "amount": round(price * pieces, 2),
        }
        lines.append(json.dumps(event | more))
    (folder / name).write_text("\n".join(lines) + "\n")


def test_from_a_folder_of_events_to_snapshots_that_are_judged(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    arrive(folder, "00.ndjson", 0)
    arrive(folder, "01.ndjson", 1_000)
    places = ["-o", tmp_path / "snaps", "--state", tmp_path / "ev.state"]
    asked = ["stream", folder, *places, "--every", 1_500, "--json", "--seed", 1]

    def run(*more: object) -> dict[str, Any]:
        done = CliRunner().invoke(tulle, [*map(str, asked), *map(str, more)])
        assert done.exit_code == 0, (done.output, done.exception)
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    first = run()
    assert first["seen"] == 2_000
    assert any("'event_id'" in note for note in first["notes"])
    shown = pl.read_parquet(sorted((tmp_path / "snaps").glob("*.parquet"))[-1])
    assert set(shown["device.w"]) <= set(WIDTHS)  # no device has another width
    assert shown["age"].is_between(14, 90).all()
    assert ((shown["price"] * shown["pieces"]).round(2) - shown["amount"]).abs().max() < 1e-6

    # a new action, a price that becomes common, a line that is broken, and a key that is renamed
    arrive(folder, "02.ndjson", 2_000, 400, action="wishlist")
    arrive(folder, "03.ndjson", 2_400, 1_500, price=19.99, pieces=1, amount=19.99)
    with (folder / "03.ndjson").open("a") as file:
        file.write("{no JSON\n")
    arrive(folder, "04.ndjson", 3_900, 200)
    renamed = (folder / "04.ndjson").read_text().replace('"pieces"', '"count"')
    (folder / "04.ndjson").write_text(renamed)
    later = run("--report", tmp_path / "ev.html", "--metrics", tmp_path / "ev.prom")
    assert (later["seen"], later["rejected"], later["lacking_keys"]) == (3_900, 201, 200)
    assert any("'pieces'" in note and "refused" in note for note in later["notes"])
    rejects = [json.loads(x) for x in Path(later["rejects"]).read_text().splitlines()]
    assert {row["line"] for row in rejects if row["source"].endswith("03.ndjson")} == {1_501}
    assert later["verdict"]["privacy"]["level"] in ("good", "caution")
    assert later["verdict"]["use"]["level"] != "undecided"
    last = sorted((tmp_path / "snaps").glob("*.parquet"))[-1]
    shown = pl.read_parquet(last)
    assert (shown["action"] == "wishlist").sum() > 100
    assert (shown["price"] == 19.99).mean() > 0.25
    assert "tulle_stream_seen_total" in (tmp_path / "ev.prom").read_text()
    assert CliRunner().invoke(tulle, ["verify", str(last)]).exit_code == 0
    assert run()["seen"] == 3_900  # nothing is counted twice
