"""The audit beside anonymeter (attacks) and SDMetrics (measures), on the same releases in one run.

Both are peers only, and not among the dependencies: ``pip install anonymeter sdmetrics`` first.
"""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np
import polars as pl

from benchmarks.bench_audit import SEED, adult, noisy
from benchmarks.results import timed, write_table
from tulle import Condenser
from tulle._attacks.inference import inference
from tulle._attacks.linkage import exact_copies, linkage
from tulle._attacks.result import Scene
from tulle._attacks.singling_out import singling_out
from tulle._metrics.marginals import total_variation
from tulle.auditing._tables import align

ATTEMPTS = 500
SECRET = "occupation"


def releases(people: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """From one that gives everything away to one that cannot know anybody."""
    rng = np.random.default_rng(SEED)
    shuffled = [column.gather(rng.permutation(people.height)) for column in people]
    return {
        "copy": people.sample(fraction=1, shuffle=True, seed=SEED),
        "noise 0.001": noisy(people),
        "k = 5": Condenser(5, random_state=SEED).fit_resample(people),
        "k = 50": Condenser(50, random_state=SEED).fit_resample(people),
        "columns shuffled": pl.DataFrame(shuffled),
    }


def ours(people: pl.DataFrame, release: pl.DataFrame, control: pl.DataFrame) -> dict[str, Any]:
    """Each attack of Tulle's: its result and its CPU seconds."""
    tables = align(people, release, control, None)
    scene = Scene(tables.original, tables.release, tables.control, ATTEMPTS)
    generator = np.random.default_rng(SEED)
    return {
        "linkage": timed(lambda: linkage(scene, generator)),
        "singling out": timed(lambda: singling_out(scene, generator)),
        "inference": timed(lambda: inference(scene, SECRET, generator)),
    }


def theirs(people: pl.DataFrame, release: pl.DataFrame, control: pl.DataFrame) -> dict[str, Any]:
    """The nearest relatives in anonymeter; linkability joins two halves of the columns."""
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

    tables = [table.to_pandas() for table in (people, release)]
    known: dict[str, Any] = {"control": control.to_pandas(), "n_attacks": ATTEMPTS}
    names = people.columns
    halves = (names[: len(names) // 2], names[len(names) // 2 :])
    others = [name for name in names if name != SECRET]
    made = {
        "linkage": LinkabilityEvaluator(*tables, aux_cols=halves, **known),
        "singling out": SinglingOutEvaluator(*tables, n_cols=3, seed=SEED, **known),
        "inference": InferenceEvaluator(*tables, aux_cols=others, secret=SECRET, **known),
    }
    options = {"singling out": {"mode": "multivariate"}}
    return {
        name: timed(lambda e=e, name=name: e.evaluate(**options.get(name, {"n_jobs": 1})))
        for name, e in made.items()
    }


def attack_rows(people: pl.DataFrame, control: pl.DataFrame) -> list[list[Any]]:
    rows = []
    for name, release in releases(people).items():
        mine, peers = ours(people, release, control), theirs(people, release, control)
        for attack, (result, seconds) in mine.items():
            evaluator, peer_seconds = peers[attack]
            risk = evaluator.risk()
            rows.append(
                [
                    name,
                    attack,
                    _interval(result.risk, *result.risk_interval),
                    _interval(risk.value, *risk.ci),
                    seconds,
                    peer_seconds,
                    peer_seconds / max(seconds, 1e-4),
                ]
            )
    return rows


def _interval(value: float, low: float, high: float) -> str:
    return f"{value:.2f} ({max(0.0, low):.2f} to {max(0.0, high):.2f})"


def measure_rows(people: pl.DataFrame, control: pl.DataFrame) -> list[list[Any]]:
    """Total variation of the categories, and copies, beside their relatives in SDMetrics."""
    from sdmetrics.single_column import TVComplement
    from sdmetrics.single_table import NewRowSynthesis

    words = [name for name, dtype in people.schema.items() if dtype == pl.String]
    kinds = {n: {"sdtype": "categorical" if n in words else "numerical"} for n in people.columns}
    compared = {
        "copy": people.sample(fraction=1, shuffle=True, seed=SEED),
        "drawn again": people.sample(fraction=1, with_replacement=True, seed=SEED),
        "k = 5": Condenser(5, random_state=SEED).fit_resample(people),
        "other people": control,
    }
    rows = []
    for name, release in compared.items():
        tables = align(people, release, None, None)
        parts = (tables.original, tables.release)
        frames = [table.to_pandas() for table in (people, release)]
        moved, seconds = timed(
            lambda parts=parts: [
                total_variation(*(part.only([word]).codes[:, 0] for part in parts))
                for word in words
            ]
        )
        kept, peer_seconds = timed(
            lambda frames=frames: [TVComplement.compute(*(f[w] for f in frames)) for w in words]
        )
        copies, copy_seconds = timed(
            lambda parts=parts: exact_copies(Scene(*parts[::-1]), np.random.default_rng(SEED))
        )
        new, new_seconds = timed(
            lambda frames=frames: NewRowSynthesis.compute(
                *frames, metadata={"columns": kinds}, numerical_match_tolerance=1e-9
            )
        )
        moves = [float(np.mean(moved)), 1 - float(np.mean(kept)), peer_seconds / seconds]
        rows.append([name, *moves, copies.rate, 1 - new, new_seconds / copy_seconds])
    return rows


def main(quick: bool) -> None:
    if find_spec("anonymeter") is None or find_spec("sdmetrics") is None:
        print("left out: pip install anonymeter sdmetrics")
        return
    warnings.simplefilter("ignore")
    np.random.seed(SEED)  # noqa: NPY002 (anonymeter draws from the process-wide generator)
    count = 600 if quick else 3000
    people, control = (adult(part, count).drop_nulls() for part in ("train", "test"))
    ours(people[:520], people[:520], control[:520])  # imports and kernels of both first
    theirs(people[:520], people[:520], control[:520])
    write_table(
        "audit_peers",
        f"Risk (95 % interval) and CPU seconds beside anonymeter: {people.height:,} records of "
        "Adult",
        ["release", "attack", "Tulle", "anonymeter", "Tulle s", "anonymeter s", "ratio"],
        attack_rows(people, control),
        notes=f"{ATTEMPTS} attempts, the same control of {control.height:,}. The attacks are "
        "relatives, not the same: anonymeter's linkability joins two halves of the columns through "
        "the release, Tulle's linkage asks whether a record is plainly somebody's own; inference "
        f"is of {SECRET} from all other columns in both. anonymeter's risk is the excess over the "
        "control as a share of what the control left.",
        packages=("numpy", "numba", "anonymeter"),
        seed=SEED,
        quick=quick,
    )
    people, control = people[:1200], control[:1200]
    write_table(
        "audit_measures",
        f"Measures beside SDMetrics: {people.height:,} records of Adult",
        ["release", "moved, Tulle", "SDMetrics", "time", "copies, Tulle", "SDMetrics", "time"],
        measure_rows(people, control),
        notes="Moved: total variation, mean over the categories (1 - TVComplement). Copies: the "
        "share of released records that stand in the data (1 - NewRowSynthesis). Time: CPU "
        "seconds of SDMetrics over Tulle's.",
        packages=("numpy", "pandas", "sdmetrics"),
        seed=SEED,
        quick=quick,
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
