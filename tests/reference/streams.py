"""Records for streams, and how two states are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

OPTIONS: dict[str, Any] = {"k": 4, "init": 60, "levels": "level", "seed": 1}


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    made = [
        {
            "age": int(rng.integers(18, 90)),
            "income": round(float(rng.lognormal(10, 1)), 2),
            "city": str(rng.choice(["Bern", "Chur", "Sion"])),
            "level": int(rng.integers(3, 7)),
            "kind": str(rng.choice(["a", "b"])),
        }
        for _ in range(count)
    ]
    if count > 150:
        made[150]["level"] = 50  # waits
    return made


def write_ndjson(path: Path, records: list[dict[str, Any]], mode: str = "w") -> Path:
    with path.open(mode) as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


def write_csv(path: Path, records: list[dict[str, Any]]) -> Path:
    lines = [",".join(records[0])] + [",".join(map(str, r.values())) for r in records]
    path.write_text("\n".join(lines) + "\n")
    return path


def groups(state: Path) -> dict[str, np.ndarray]:
    """What is in the state of the groups; families depend on when snapshots were taken."""
    with np.load(state) as arrays:
        names = [n for n in arrays.files if ".groups." in n and not n.endswith("families")]
        return {name: arrays[name] for name in names}


def same_groups(one: Path, two: Path) -> None:
    first, second = groups(one), groups(two)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
