"""The studies of the sliding window paper: window size, scenarios, CPU time, and throughput.

On retail, BMS-WebView-1, Reuters words and a million Quest baskets.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.results import data_folder, save_chart, timed, write_table
from tulle import Rule, RuleHider, Transactions, choose_rules, quest, read_fimi, write_fimi
from tulle.rules._classic import algo2a, iga, swa
from tulle.rules._sensitive import SensitiveRules, Thresholds
from tulle.rules._stream import WINDOW, HidingStream
from tulle.rules.containers import as_baskets
from tulle.transactions import fimi_blocks

FILES = {"retail": 0.001, "BMS-WebView-1": 0.001, "reuters_words": 0.055}
QUEST = "Quest T10.I4.D1000K"
CONFIDENCE = 0.6
WINDOWS = [500, 1_000, 5_000, 10_000, 20_000, 40_000, 60_000, 80_000, 100_000]


def main(quick: bool = False) -> None:
    """All four studies."""
    _window_study(quick)
    _scenario_study(quick)
    million = _quest(20_000 if quick else 1_000_000)
    _time_study(million, quick)
    _throughput(million, quick)


def _quest(size: int) -> Transactions:
    return as_baskets(quest(T=10, I=4, D=size, N=1_000, random_state=0))


def _files(quick: bool) -> Iterator[tuple[str, Transactions, float]]:
    if quick:
        yield "groceries", _load("groceries"), 0.004
        return
    for name, share in FILES.items():
        yield name, _load(name), share
    yield QUEST, _quest(1_000_000), 0.005


def _load(name: str) -> Transactions:
    return read_fimi(data_folder() / "transactions" / f"{name}.dat.gz")


def _window_study(quick: bool) -> None:
    """psi = 25% with six rules of high support, as in the paper."""
    points: list[dict[str, Any]] = []
    for name, baskets, share in _files(quick):
        limits = {"min_support": share, "min_confidence": CONFIDENCE}
        rules = choose_rules(baskets, 6, scenario="S3", **limits)
        for window in [size for size in WINDOWS if size < len(baskets)] + [len(baskets)]:
            hider = RuleHider(
                rules, method="swa", disclosure=0.25, window=window, random_state=0, **limits
            )
            hider.fit_transform(baskets)
            points.append(
                {
                    "file": name,
                    "window": window,
                    "dif": hider.dif_,
                    "misses cost": hider.misses_cost_,
                    "hiding failure": hider.hiding_failure_,
                }
            )
    measures = ["dif", "misses cost", "hiding failure"]
    write_table(
        "hiding_windows",
        "SWA by window size: psi = 25%, six rules of high support (S3)",
        ["file", "window", *measures],
        [[p["file"], p["window"], *(p[m] for m in measures)] for p in points],
        notes="The last window of each file is the whole file. With psi = 25% a quarter of the "
        "supporting baskets stays as it is, so rules of high support can still be mined.",
        quick=quick,
    )
    save_chart("hiding_windows", _lines(points, "window", measures), quick=quick)


def _scenario_study(quick: bool) -> None:
    points: list[dict[str, Any]] = []
    for name, baskets, share in _files(quick):
        limits = {"min_support": share, "min_confidence": CONFIDENCE}
        for scenario in ("S1", "S2", "S3", "S4"):
            n_rules = 6 if scenario == "S1" or quick else 20
            try:
                rules = choose_rules(baskets, n_rules, scenario=scenario, random_state=0, **limits)
            except ValueError as error:
                print(f"{name} {scenario}: {error}")
                continue
            for method in ("best", "swa", "iga", "algo2a"):
                hider = RuleHider(rules, method=method, margin=0, random_state=0, **limits)
                hider.fit_transform(baskets)
                points.append(
                    {
                        "file": name,
                        "scenario": f"{scenario} ({n_rules} rules)",
                        "method": method,
                        "misses cost": hider.misses_cost_,
                        "artifactual": hider.artifactual_,
                        "dif": hider.dif_,
                    }
                )
                print(points[-1], flush=True)
    fields = ["file", "scenario", "method", "misses cost", "artifactual", "dif"]
    write_table(
        "hiding_scenarios",
        "Scenarios: disjoint (S1), random (S2), highest (S3) and lowest support (S4)",
        fields,
        [[point[field] for field in fields] for point in points],
        notes="To the thresholds; hiding failure 0 throughout.",
        quick=quick,
    )
    save_chart("hiding_scenarios", _bars(points), quick=quick)


def _time_study(baskets: Transactions, quick: bool) -> None:
    """CPU time of hiding 20 to 100 rules with psi = 0."""
    limits = {"min_support": 0.005, "min_confidence": 0.3}
    rules = choose_rules(baskets, 100, random_state=0, **limits)
    points = []
    for method in (swa, iga, algo2a):
        _hidden(baskets, rules[:20], method)  # compile, and build the inverted file
    for count in (20, 40, 60, 80, 100):
        for method in (swa, iga, algo2a):
            seconds = min(_hidden(baskets, rules[:count], method) for _ in range(1 if quick else 3))
            points.append({"rules": count, "method": method.__name__, "seconds": seconds})
    write_table(
        "hiding_times",
        f"CPU seconds of hiding with psi = 0 in {len(baskets):,} Quest baskets",
        ["rules", "swa", "iga", "algo2a"],
        [
            [count, *(p["seconds"] for p in points if p["rules"] == count)]
            for count in (20, 40, 60, 80, 100)
        ],
        notes="In memory, without reading and writing; for iga and algo2a the inverted file is "
        "there already, which swa does not need.",
        seed=0,
        quick=quick,
    )
    save_chart("hiding_times", _time_chart(points), quick=quick)


def _hidden(baskets: Transactions, rules: list[Rule], method: Any) -> float:
    import numpy as np

    sensitive = SensitiveRules.find(baskets, rules, Thresholds("bench", disclosure=0.0))
    sensitive.quota  # noqa: B018  (swa finds its baskets itself, the others from the file)
    _, seconds = timed(lambda: method(sensitive, np.random.default_rng(0)))
    return seconds


def _throughput(baskets: Transactions, quick: bool) -> None:
    limits = {"min_support": 0.005, "min_confidence": 0.3}
    rules = choose_rules(baskets, 100, random_state=0, **limits)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "baskets.dat"
        with path.open("wb") as file:
            write_fimi(baskets, file)
        reading = min(timed(lambda: read_fimi(path))[1] for _ in range(2))
        blocks = timed(lambda: sum(len(block) for block in fimi_blocks(path, 50_000)))[1]
        for count in (6, 20, 100):
            inside = min(_hidden(baskets, rules[:count], swa) for _ in range(3))
            streamed = min(timed(lambda c=count: _streamed(path, rules[:c]))[1] for _ in range(2))
            speed = len(baskets) / inside / 1e6
            lines.append([count, inside, speed, reading, streamed])
    write_table(
        "hiding_throughput",
        f"SWA with psi = 0 on {len(baskets):,} Quest baskets ({len(baskets.items):,} items)",
        ["rules", "in memory, s", "million baskets / s", "read the file, s", "file to file, s"],
        lines,
        notes="CPU seconds. *File to file* streams windows of 50,000 baskets in bounded memory and "
        f"reads the file twice (once is {blocks:.2f} s): first to count, then to hide, verify "
        "and write.",
        quick=quick,
    )


def _streamed(path: Path, rules: list[Rule]) -> None:
    limits = Thresholds("bench", disclosure=0.0)
    hiding = HidingStream(
        lambda size: fimi_blocks(path, size), rules, limits,
        window=WINDOW, victim="transaction", random_state=0,
    )  # fmt: skip
    for released in hiding.released():
        write_fimi(released, io.BytesIO())


def _lines(points: list[dict[str, Any]], x: str, measures: list[str]) -> Any:
    import altair as alt

    folded = [
        {"file": p["file"], x: p[x], "measure": m, "value": p[m]} for p in points for m in measures
    ]
    return (
        alt.Chart(alt.Data(values=folded))
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{x}:Q", scale=alt.Scale(type="log"), title="baskets in a window"),
            y=alt.Y("value:Q", title=None),
            color=alt.Color("file:N", title=None),
            facet=alt.Facet("measure:N", title=None, columns=3, sort=measures),
        )
        .properties(width=230, height=180)
        .resolve_scale(y="independent")
    )


def _bars(points: list[dict[str, Any]]) -> Any:
    import altair as alt

    return (
        alt.Chart(alt.Data(values=points))
        .mark_bar()
        .encode(
            x=alt.X("method:N", sort=["best", "swa", "iga", "algo2a"], title=None),
            y=alt.Y("misses cost:Q"),
            color=alt.Color("method:N", legend=None),
            column=alt.Column("scenario:N", title=None),
            row=alt.Row("file:N", title=None),
        )
        .properties(width=110, height=100)
    )


def _time_chart(points: list[dict[str, Any]]) -> Any:
    import altair as alt

    return (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("rules:Q", title="sensitive rules"),
            y=alt.Y("seconds:Q", scale=alt.Scale(type="log"), title="CPU seconds"),
            color=alt.Color("method:N", title=None),
        )
        .properties(width=420, height=220)
    )


if __name__ == "__main__":
    main("--quick" in sys.argv)
