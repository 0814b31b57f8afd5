"""Audit three releases of one table: noise that hides nobody, and small and large groups.

Noise is caught at once. In groups of 20 and of 50 no attack does notably better on people in the
data, but 114 strangers are too few to rule a leak out: the verdict is "not decided", and says how
many it would take.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.datasets import load_breast_cancer

from tulle import Condenser, audit


def tumours() -> pl.DataFrame:
    """569 tumours: ten measures and the diagnosis."""
    data = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in data.feature_names[:10]]
    table = pl.DataFrame(data.data[:, :10], schema=names)
    return table.with_columns(diagnosis=pl.Series(data.target_names[data.target]))


def main() -> None:
    """The control is a fifth of the people: they are in no release."""
    table = tumours().sample(fraction=1, shuffle=True, seed=1)
    control, people = table[:114], table[114:]

    rng = np.random.default_rng(2)
    measures = [name for name in people.columns if name != "diagnosis"]
    noise = 1 + pl.Series(rng.normal(0, 0.001, people.height))
    releases = {
        "a little noise": people.with_columns(pl.col(name) * noise for name in measures),
        "groups of 20": Condenser(20, random_state=2).fit_resample(people),
        "groups of 50": Condenser(50, random_state=2).fit_resample(people),
    }
    folder = Path(tempfile.mkdtemp())
    for name, release in releases.items():
        found = audit(people, release, control=control, target="diagnosis", random_state=3)
        print(f"\n{name}: {found.verdict['privacy']['reason']}")
        for attack in ("linkage", "inference:mean_radius", "inference:diagnosis", "membership"):
            row = found.to_dict()["attacks"][attack]
            print(f"  {attack:21} {row['rate']:6.1%}   people not in it {row['control']:6.1%}")
        print(f"  accuracy kept         {found.to_dict()['metrics']['accuracy_ratio']:6.1%}")
        report = found.save(folder / f"{name.replace(' ', '_')}.html")
        print(f"  report: {report.name}")


if __name__ == "__main__":
    main()
