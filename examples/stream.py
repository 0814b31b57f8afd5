"""Condense a stream: batches of any size, levels, classes, snapshots that may leave, a state."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from tulle import SecretKey, StreamCondenser


def arrivals(count: int, rng: np.random.Generator, drift: float = 0.0) -> pl.DataFrame:
    """People as they come: age, income, town and the privacy that each asks for."""
    age = rng.integers(18, 90, size=count)
    return pl.DataFrame(
        {
            "age": age,
            "income": np.round(rng.lognormal(10 + 0.005 * age + drift, 0.4), 2),
            "town": rng.choice(["Bern", "Chur", "Sion"], size=count, p=[0.6, 0.3, 0.1]),
            "level": rng.choice([5, 10, 30], size=count, p=[0.6, 0.35, 0.05]),
        }
    )


def main() -> None:
    rng = np.random.default_rng(0)
    stream = StreamCondenser(k=5, random_state=0)
    for hour in range(24):
        stream.partial_fit(arrivals(int(rng.integers(50, 300)), rng, hour / 50), levels="level")
        if hour % 8 == 7:
            shown = stream.snapshot()  # may leave beside the earlier ones
            held = stream.last_change_.held_back
            print(f"hour {hour + 1}: {stream.n_seen_} seen, {len(stream.counts_)} groups, ", end="")
            print(f"{shown.height} released, {held} held back, {stream.n_waiting_} waiting")
    print(shown.head(3))
    print("drift:", [round(row["drift"], 2) for row in stream.history_])
    for note in stream.notes_:
        print("note:", note)

    with tempfile.TemporaryDirectory() as folder:
        path, key = Path(folder) / "stream.state", SecretKey.generate()
        stream.save(path, key=key)  # statistics; records that wait are sealed
        later = StreamCondenser.load(path, key=key)
        batch = arrivals(100, rng)
        same = stream.partial_fit(batch, levels="level").sample()
        again = later.partial_fit(batch, levels="level").sample()
        print(f"state of {path.stat().st_size // 1024} KiB; goes on the same:", same.equals(again))

    towns = StreamCondenser(k=10, classwise=True, random_state=0)  # no group mixes towns
    for _ in range(5):
        people = arrivals(200, rng)
        towns.partial_fit(people.drop("town"), people["town"], levels="level")
    records, labels = towns.sample()
    print(f"{records.height} records by town:", dict(labels.value_counts(sort=True).iter_rows()))


if __name__ == "__main__":
    main()
