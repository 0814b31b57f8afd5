"""The papers' figures drawn again, on their axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt

from benchmarks.results import save_chart

Points = list[dict[str, Any]]


def draw_all(measured: dict[str, dict[str, Any]]) -> None:
    """Draw every figure whose experiment has been measured."""
    for name, (experiment, draw) in FIGURES.items():
        points = measured.get(experiment, {}).get("curves")
        if points:
            save_chart(name, draw(points))


def _long(points: Points, keep: tuple[str, ...], measures: dict[str, str]) -> Points:
    """One row for each point and measure; an error is found under the measure and " se"."""
    rows = []
    for point in points:
        for key, name in measures.items():
            if point.get(key) is not None:
                spread = point.get(f"{key} se", 0.0)
                value = point[key]
                rows.append(
                    {k: point[k] for k in keep}
                    | {
                        "series": name,
                        "value": value,
                        "low": value - spread,
                        "high": value + spread,
                    }
                )
    return rows


def _panel(rows: Points, x: str, y: str, *, log: bool = False, width: int = 230) -> Any:
    axis = alt.X(f"{x}:Q", scale=alt.Scale(type="log" if log else "linear", zero=False), title=x)
    base = alt.Chart(alt.Data(values=rows)).encode(x=axis, color=alt.Color("series:N", title=None))
    lines = base.mark_line(point=True).encode(
        y=alt.Y("value:Q", title=y, scale=alt.Scale(zero=False))
    )
    bars = base.mark_rule(opacity=0.5).encode(y="low:Q", y2="high:Q")
    return (bars + lines).properties(width=width, height=150)


def _facets(rows: Points, by: str, x: str, y: str, **options: Any) -> Any:
    panels = [
        _panel([row for row in rows if row[by] == name], x, y, **options).properties(
            title=str(name)
        )
        for name in dict.fromkeys(row[by] for row in rows)
    ]
    return alt.concat(*panels, columns=2 if len(panels) % 2 == 0 else 3)


def _levels_accuracy(points: Points) -> Any:
    measures = {"static": "static", "dynamic": "dynamic", "original": "original"}
    return _facets(_long(points, ("data", "alpha"), measures), "data", "alpha", "accuracy")


def _levels_compatibility(points: Points) -> Any:
    measures = {"mu static": "static", "mu dynamic": "dynamic"}
    return _facets(_long(points, ("data", "alpha"), measures), "data", "alpha", "compatibility")


def _classes_search(points: Points) -> Any:
    first = [point for point in points if point["seed"] == 0]
    panels = []
    for what, log in (("sizes tried", False), ("seconds", True)):
        rows = [
            {"data": p["data"], "how": how, "value": p[f"{how} {what}"]}
            for p in first
            for how in ("rule", "brute")
        ]
        scale = alt.Scale(type="log") if log else alt.Scale()
        chart = alt.Chart(alt.Data(values=rows))
        # a bar would have to begin at zero, which a logarithmic axis does not have
        marked = chart.mark_point(filled=True, size=70) if log else chart.mark_bar()
        panels.append(
            marked.encode(
                x=alt.X("data:N", title=None),
                xOffset="how:N",
                y=alt.Y("value:Q", title="CPU seconds" if log else what, scale=scale),
                color=alt.Color("how:N", title=None),
            ).properties(width=270, height=170)
        )
    return alt.hconcat(*panels)


def _classes_adult(points: Points) -> Any:
    rows = [{**point, "series": _way(point)} for point in points]
    named = {"overall": "accuracy", ">50K": "accuracy of the smaller class", "privacy": "privacy"}
    panels = []
    for key, name in named.items():
        flat = [{"k": r["k"], "series": r["series"], "value": r[key], "low": r[key], "high": r[key]}
                for r in rows]  # fmt: skip
        panels.append(_panel(flat, "k", name, width=230))
    return alt.hconcat(*panels)


def _way(point: dict[str, Any]) -> str:
    return "class-wise" if point["way"] == "class-wise" else f"together, weight {point['weight']}"


def _rules_windows(points: Points) -> Any:
    measures = {"misses cost": "misses cost", "hiding failure": "hiding failure", "dif": "dif"}
    return _facets(_long(points, ("data", "window"), measures), "data", "window", "share", log=True)


def _rules_times(points: Points) -> Any:
    return (
        alt.Chart(alt.Data(values=[{**p, "ms": 1000 * p["seconds"]} for p in points]))
        .mark_line(point=True)
        .encode(
            x=alt.X("rules:Q", title="Number of sensitive rules", scale=alt.Scale(zero=False)),
            y=alt.Y("ms:Q", title="CPU time (ms)", scale=alt.Scale(type="log")),
            color=alt.Color("method:N", title=None),
        )
        .properties(width=320, height=200)
    )


def _sketches(points: Points) -> Any:
    shown = [p for p in points if p["model"] in ("delta", "definition", "gap")]
    rows = []
    for measure in ("accuracy", "similarity"):
        for axis, models in (("k", ("definition", "gap")), ("delta", ("delta",))):
            own = [
                {**p, axis: p["level"], "series": p["model"]} for p in shown if p["model"] in models
            ]
            long = [
                {"data": p["data"], axis: p[axis], "series": p["series"], "value": p[measure],
                 "low": p[measure] - p[f"{measure} se"], "high": p[measure] + p[f"{measure} se"]}
                for p in own
            ]  # fmt: skip
            rows.append(_facets(long, "data", axis, measure, log=True))
    return alt.vconcat(*rows)


def _sketches_dimensions(points: Points) -> Any:
    rows = [{**p, "delta": str(p["delta"])} for p in points]
    panels = []
    for measure in ("accuracy", "similarity"):
        flat = [
            {"items": r["items"], "series": f"delta {r['delta']}", "value": r[measure],
             "low": r[measure], "high": r[measure]}
            for r in rows
        ]  # fmt: skip
        panels.append(_panel(flat, "items", f"ratio of {measure}", width=240))
    return alt.hconcat(*panels)


def _sketches_times(points: Points) -> Any:
    panels = []
    for what, title in (("items", "non-zero items"), ("records", "data size")):
        rows = [p for p in points if p["grows"] == what]
        panels.append(
            alt.Chart(alt.Data(values=rows))
            .mark_line(point=True)
            .encode(x=alt.X("size:Q", title=title), y=alt.Y("seconds:Q", title="CPU seconds"))
            .properties(width=260, height=180)
        )
    return alt.hconcat(*panels)


def _sites_boxes(points: Points) -> Any:
    panels = [
        alt.Chart(alt.Data(values=[p for p in points if p["column"] == name]))
        .mark_boxplot(size=30, extent="min-max")
        .encode(x=alt.X("value:Q", title=name, scale=alt.Scale(zero=False)))
        .properties(width=280, height=60)
        for name in dict.fromkeys(p["column"] for p in points)
    ]
    return alt.vconcat(*panels)


FIGURES: dict[str, tuple[str, Callable[[Points], Any]]] = {
    "reproduction_levels_accuracy": ("levels_figures", _levels_accuracy),
    "reproduction_levels_compatibility": ("levels_figures", _levels_compatibility),
    "reproduction_classes_search": ("classes_table2", _classes_search),
    "reproduction_classes_adult": ("classes_adult", _classes_adult),
    "reproduction_rules_windows": ("rules_windows", _rules_windows),
    "reproduction_rules_times": ("rules_times", _rules_times),
    "reproduction_sketches": ("sketches_figures", _sketches),
    "reproduction_sketches_dimensions": ("sketches_dimensions", _sketches_dimensions),
    "reproduction_sketches_times": ("sketches_times", _sketches_times),
    "reproduction_sites_boxes": ("sites_boxes", _sites_boxes),
}
