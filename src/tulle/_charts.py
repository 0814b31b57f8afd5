"""The charts of reports and notebooks: rows of aggregates in, an Altair chart out.

The page carries whatever is plotted, so rows must be aggregates; the makers here only draw. The
same function serves the report, a notebook and a web page: text and lines take the colour of
their surroundings (``currentColor``), so that light, dark and print need no second chart. Import
this module where a chart is drawn: Altair takes half a second to load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt

from tulle._checks import check_choice
from tulle.errors import ParameterError

Rows = Sequence[Mapping[str, Any]]

ORIGINAL, RELEASE, CONTROL = "#4c78a8", "#e8871e", "#8a63b5"
_PASSES, _GREY, _INK = "#2e8b57", "#8c8c8c", "currentColor"
_AXES = ("risk", "utility")
WIDTH = 760
_HEIGHT = 380  # of a frontier
MOST_NAMES = 40  # of rules or attacks in one picture; the table below it has them all
_PANEL = WIDTH // 2 - 40
_ANY_ZERO = alt.Scale(zero=False)  # an axis need not begin at nothing
_LOG = alt.Scale(type="log", nice=False)


def chart(kind: str, rows: Rows) -> Any:
    """Draw one of the kinds of ``_KINDS`` as an Altair chart."""
    check_choice("chart", "kind", kind, FIELDS)
    for field in FIELDS[kind]:
        if any(field not in row for row in rows):
            raise ParameterError(f"A row of the chart '{kind}' lacks the field '{field}'.")
    return _in_house_style(_KINDS[kind][0](list(rows)))


def spec(kind: str, rows: Rows) -> dict[str, Any]:
    """Draw the same chart as a Vega-Lite dictionary."""
    # the shape of a kind does not depend on its rows, so the tests check it once for all
    described: dict[str, Any] = chart(kind, rows).to_dict(validate=False)
    return described


# What all charts share.


def _data(rows: Rows, **options: Any) -> Any:
    return alt.Chart(alt.Data(values=list(rows)), **options)


def _tip(names: Sequence[str], figures: Sequence[str], form: str) -> list[Any]:
    return [*names, *(alt.Tooltip(f"{figure}:Q", format=form) for figure in figures)]


def _named(field: str, colours: Mapping[str, str], **options: Any) -> Any:
    """Colour by a field of a few words, each of which has its colour."""
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color(f"{field}:N", scale=scale, title=None, **options)


def _labels(rows: Rows) -> Any:
    """Write the label of each row beside the picture, in the order of the rows."""
    names = [row["label"] for row in rows]
    return alt.Y("label:N", sort=names, title=None, axis=alt.Axis(labelLimit=320))


_SIDES = {"original": ORIGINAL, "release": RELEASE}


def _in_house_style(drawn: Any) -> Any:
    words = {"labelColor": _INK, "titleColor": _INK, "labelFontSize": 12}
    lines = {"domainColor": _INK, "tickColor": _INK, "gridColor": _INK, "gridOpacity": 0.15}
    axis = {**words, **lines, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 220}
    return (
        drawn.configure(background="transparent", font="system-ui, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(**axis)
        .configure_legend(**words, labelLimit=320, titleFontSize=12)
        .configure_header(**words)
        .configure_title(color=_INK, fontWeight="normal", anchor="start")
    )


# Original and release side by side: columns, axes and correlations.


def _histogram(rows: Rows) -> Any:
    folded = [
        {"label": row["label"], "of": of, "share": row[of]}
        for row in rows
        for of in _SIDES
        if row[of] is not None
    ]
    order = [row["label"] for row in rows]
    # bars that are hidden keep their place
    x = alt.X("label:N", sort=order, title=None, axis=alt.Axis(labelAngle=-40))
    return (
        _data(folded)
        .mark_bar()
        .encode(
            x=x.scale(domain=order),
            xOffset=alt.XOffset("of:N", sort=list(_SIDES)),
            y=alt.Y("share:Q", title="share of records", axis=alt.Axis(format="%")),
            color=_named("of", _SIDES),
            tooltip=_tip(["label:N", "of:N"], ["share"], ".1%"),
        )
        .properties(width=WIDTH, height=180)
    )


def _density(rows: Rows) -> Any:
    legend, areas = alt.Legend(format=".1%"), alt.Scale(range=[4, 220])
    return (
        _data(rows)
        .mark_circle(opacity=0.75)
        .encode(
            x=alt.X("x:Q", title="first principal axis", scale=_ANY_ZERO),
            y=alt.Y("y:Q", title="second principal axis", scale=_ANY_ZERO),
            size=alt.Size("share:Q", title="share", legend=legend, scale=areas),
            color=_named("of", _SIDES, legend=None),
            tooltip=_tip(["of:N"], ["share"], ".2%"),
        )
        .properties(width=WIDTH // 2 - 20, height=260)
        .facet(column=alt.Column("of:N", title=None))
    )


def _correlation(rows: Rows) -> Any:
    names = list(dict.fromkeys(row["first"] for row in rows))
    side = max(110, min(260, 15 * len(names)))
    values = [
        {**row, "difference": row["release"] - row["original"]}
        for row in rows
        if row["original"] is not None and row["release"] is not None
    ]
    font = max(5, min(12, side // max(1, len(names))))  # names must not overlap
    scale = alt.Scale(scheme="blueorange", domain=[-1, 1], domainMid=0)

    def matrix(field: str) -> Any:
        up = alt.Axis(labels=field == "original", labelFontSize=font)
        along = alt.Axis(labelAngle=-90, labelFontSize=font)
        return (
            _data(values, title=field)
            .mark_rect()
            .encode(
                x=alt.X("second:N", sort=names, title=None, axis=along),
                y=alt.Y("first:N", sort=names, title=None, axis=up),
                color=alt.Color(f"{field}:Q", scale=scale, title=""),
                tooltip=_tip(["first:N", "second:N"], [field], ".2f"),
            )
            .properties(width=side, height=side)
        )

    return alt.hconcat(*map(matrix, ("original", "release", "difference")), spacing=8)


def _grid(rows: Rows) -> Any:
    """Draw how often bars of two columns come together, original and release side by side."""
    orders = [
        [label for _, label in sorted({(row[f"{axis}_place"], row[axis]) for row in rows})]
        for axis in ("x", "y")
    ]
    blues, legend = alt.Scale(scheme="blues"), alt.Legend(format=".1%")
    return (
        _data(rows)
        .mark_rect()
        .encode(
            x=alt.X("x:N", sort=orders[0], title=None, axis=alt.Axis(labelAngle=-40)),
            y=alt.Y("y:N", sort=orders[1][::-1], title=None),
            color=alt.Color("share:Q", title="share", scale=blues, legend=legend),
            tooltip=_tip(["of:N", "x:N", "y:N"], ["share"], ".2%"),
        )
        .properties(width=WIDTH // 2 - 60, height=300)
        .facet(column=alt.Column("of:N", title=None))
    )


# What was measured: attacks, groups, hidden rules and estimates.


def _attacks(rows: Rows) -> Any:
    shown = list(rows)[:MOST_NAMES]
    colours = {"attack": RELEASE, "control": CONTROL, "baseline: guessing": _GREY}
    attack, control, guessing = colours
    if all(row["control"] is None for row in shown):
        del colours[control]  # no entry in the legend for what is not there
    colour = _named("of", colours, legend=alt.Legend(orient="top"))
    tip = _tip(["label:N"], ("rate", "control", "baseline", "risk"), ".1%")
    axis = alt.Axis(format="%"), alt.Scale(domain=[0, 1])
    title = "success rate, with its 95 % interval"

    def layer(of: str, field: str) -> Any:
        x = alt.X(f"{field}:Q", title=title, axis=axis[0], scale=axis[1])
        tried = [{**row, "of": of} for row in shown if row[field] is not None]
        return _data(tried).encode(y=_labels(shown), x=x, tooltip=tip)

    drawn = alt.layer(
        layer(attack, "rate").mark_bar(height=12, opacity=0.85).encode(color=colour),
        layer(attack, "low").mark_rule(color=_INK).encode(x2="high:Q"),
        layer(guessing, "baseline").mark_tick(thickness=3, height=20).encode(color=colour),
        layer(control, "control").mark_tick(thickness=4, height=20).encode(color=colour),
    )
    return drawn.properties(width=WIDTH - 120, height=alt.Step(30))


def _groups(rows: Rows) -> Any:
    sizes = len({row["size"] for row in rows})
    return (
        _data(rows)
        .mark_bar()
        .encode(
            x=alt.X("size:O", title="records in the group"),
            y=alt.Y("sum(groups):Q", title="groups"),
            color=alt.Color("level:O", title="level", scale=alt.Scale(scheme="oranges")),
            tooltip=["size:O", "level:O", "groups:Q"],
        )
        .properties(width=min(WIDTH, 120 + 40 * sizes), height=180)
    )


def _before_after(rows: Rows) -> Any:
    names = list(dict.fromkeys(row["name"] for row in rows))[:MOST_NAMES]
    shown = [row for row in rows if row["name"] in set(names)]
    measures = list(dict.fromkeys(row["measure"] for row in shown))
    colour = _named("when", {"before": ORIGINAL, "after": RELEASE})
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=260))

    def panel(place: int, measure: str) -> Any:
        mine = [row for row in shown if row["measure"] == measure]
        dots = [
            {"name": row["name"], "measure": measure, "when": when, "value": row[when]}
            for row in mine
            for when in ("before", "after")
            if row[when] is not None
        ]
        limited = [row for row in mine if row["limit"] is not None]
        names = y.axis(labels=False) if place else y
        tip = _tip(["name:N", "when:N"], ["value"], ".4f")
        span = _data(mine).mark_rule(color=_INK, opacity=0.5)
        limit = _data(limited).mark_tick(color="#c0392b", thickness=2, height=14)
        dot = _data(dots).mark_point(filled=True, size=70, opacity=1)
        return alt.layer(
            span.encode(y=names, x=alt.X("before:Q", title=measure), x2="after:Q"),
            limit.encode(y=names, x="limit:Q"),
            dot.encode(y=names, x="value:Q", color=colour, tooltip=tip),
        ).properties(width=220, height=alt.Step(18))

    return alt.hconcat(*(panel(place, measure) for place, measure in enumerate(measures)))


def _error(rows: Rows) -> Any:
    known = [row for row in rows if row["predicted"] is not None and row["measured"] is not None]
    ends = [v for row in known for v in (row["predicted"], row["measured"])] or [0.0, 1.0]
    line = [{"predicted": end, "measured": end} for end in (min(ends), max(ends))]
    # errors grow with the records: on a straight scale the largest would hide all others
    scale = _LOG if min(ends) > 0 and max(ends) > 50 * min(ends) else _ANY_ZERO
    x = alt.X("predicted:Q", title="predicted error", scale=scale)
    y = alt.Y("measured:Q", title="measured error", scale=scale)
    diagonal = _data(line).mark_line(strokeDash=[4, 3], color=_INK, opacity=0.6)
    dots = _data(known).mark_point(filled=True, size=60, color=RELEASE)
    tip = ["name:N", "predicted:Q", "measured:Q"]
    layers = alt.layer(diagonal.encode(x=x, y=y), dots.encode(x=x, y=y, tooltip=tip))
    return layers.properties(width=WIDTH, height=240)


def _ranking(rows: Rows) -> Any:
    """Draw bars, the first on top, with a mark for what would be expected."""
    shown = list(rows)[:MOST_NAMES]
    tip = _tip(["label:N"], ("value", "mark"), ".3~g")

    def layer(some: Rows, field: str) -> Any:
        x = alt.X(f"{field}:Q", title=None, scale=alt.Scale(zero=True))
        return _data(some).encode(y=_labels(shown), x=x, tooltip=tip)

    layers = [layer(shown, "value").mark_bar(height=12, color=RELEASE, opacity=0.85)]
    marked = [row for row in shown if row["mark"] is not None]
    if marked:
        layers.append(layer(marked, "mark").mark_tick(thickness=4, height=20, color=CONTROL))
    return alt.layer(*layers).properties(width=WIDTH - 120, height=alt.Step(22))


# The exploration: releases between what they risk and what they give.


def _risk_and_utility(rows: Rows) -> Any:
    """Draw releases on their curves, each a link to its attacks; what does not pass is hollow.

    Where risk alone tells what passes, that part stands on green. The axes are chosen by the
    releases. References that lie beyond them (the records themselves risk everything) are in the
    table; their utility is a line if it is near.
    """
    releases = [row for row in rows if row["curve"]] or list(rows)
    sides = (
        _span([row["risk"] for row in releases], 0.02),
        _span([row["utility"] for row in releases], 0.01),
    )
    shown = [row for row in rows if all(a <= row[f] <= b for f, (a, b) in zip(_AXES, sides))]
    references = [row for row in shown if not row["curve"]]
    releases = [row for row in releases if row["curve"]]
    scales = [alt.Scale(domain=list(side), nice=False) for side in sides]
    share, ticks = alt.Axis(format="%", tickCount=8), alt.Axis(tickCount=6)
    title = "risk: worst excess over people who were kept out"
    x = alt.X("risk:Q", title=title, axis=share, scale=scales[0])
    y = alt.Y("utility:Q", title="utility", axis=ticks, scale=scales[1])
    tip = [*_tip(["label:N"], ("risk", "low", "high"), ".1%"), *_tip([], ["utility"], ".3f")]

    def layer(some: Rows) -> Any:
        return _data(some).encode(x=x, y=y, tooltip=tip)

    # a layer without rows would make Vega complain of an infinite extent
    drawn = []
    safe = _passing_until(releases)
    if safe is not None:
        area = _data([{"risk": sides[0][0], "until": safe}]).mark_rect(color=_PASSES, opacity=0.14)
        drawn.append(area.encode(x=x, x2="until:Q"))
    if references:
        drawn.append(layer(references).mark_point(shape="diamond", color=_GREY, filled=True))
    if releases:
        colour = alt.Color("curve:N", title=None, legend=alt.Legend(orient="top"))
        spans = [
            {**row, "low": max(sides[0][0], row["low"]), "high": min(sides[0][1], row["high"])}
            for row in releases
        ]
        hollow = [row for row in releases if not row["passes"]]
        points = layer(releases).mark_point(filled=True, size=110, opacity=1, cursor="pointer")
        inner = layer(hollow).mark_point(filled=True, size=40, opacity=1, color="white")
        drawn += [
            layer(releases).mark_line(opacity=0.5).encode(color=colour, order="k:Q"),
            layer(spans).mark_rule(opacity=0.35).encode(x="low:Q", x2="high:Q", color=colour),
            points.encode(color=colour, href="link:N"),
            *([inner.encode(href="link:N")] if hollow else []),
        ]
    chosen = [row for row in releases if row["chosen"]]
    if chosen:
        large = layer(chosen).mark_point(filled=True, color=_PASSES, size=420, opacity=1)
        drawn.append(large.encode(href="link:N"))
    placed = _placed([*chosen, *(r for r in releases if not r["chosen"]), *references], sides)
    if placed:
        text = layer(placed).mark_text(fontSize=12, color=_INK)
        text = text.encode(x=alt.X("at_x:Q", scale=scales[0]), y=alt.Y("at_y:Q", scale=scales[1]))
        drawn.append(text.encode(text="word:N"))
    return alt.layer(*drawn).properties(width=WIDTH, height=_HEIGHT)


def _span(values: Sequence[float], least: float) -> tuple[float, float]:
    """Find the ends of an axis that shows values with some room about them."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = max(least, 0.15 * (high - low))
    return low - room, high + room


def _passing_until(releases: Rows) -> float | None:
    """Find the risk up to which releases pass; None where one that does not has no more."""
    safe = max((row["risk"] for row in releases if row["passes"]), default=None)
    failing = min((row["risk"] for row in releases if not row["passes"]), default=float("inf"))
    return None if safe is None or failing <= safe else safe


def _placed(rows: Rows, sides: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """Put labels beside their points, not over others or their points; without room none."""
    scales = [length / (b - a) for length, (a, b) in zip((WIDTH, _HEIGHT), sides)]
    dot = 8.0  # half the width of a point, which a label must not cover either
    taken = [(row["risk"] * scales[0], row["utility"] * scales[1], dot) for row in rows]
    labels = []
    for row in rows:
        word = f"k = {row['k']}" if row["curve"] else row["label"]
        wide = 3.6 * len(word)  # half of it, in pixels
        for dx, dy in ((0, 20), (0, -20), (wide + 12, 0), (-wide - 12, 0), (0, 34), (0, -34)):
            across, up = row["risk"] * scales[0] + dx, row["utility"] * scales[1] + dy
            if all(abs(across - x) > wide + w or abs(up - y) > 14 for x, y, w in taken):
                taken.append((across, up, wide))
                at = {"at_x": across / scales[0], "at_y": up / scales[1], "word": word}
                labels.append({**row, **at})
                break
    return labels


# A panel for each measure, all over the same axis.


_ALONG = {  # what runs along the axis of all panels, its title, and its scale
    "over_k": alt.X("k:Q", title="group size k", scale=_LOG),
    "history": alt.X("seen:Q", title="records seen", axis=alt.Axis(format="~s", tickCount=5)),
    "challenge": alt.X("seconds:Q", title="CPU seconds of the attacker", scale=_LOG),
}


def _panels(x: Any, rows: Rows) -> Any:
    curves = {row["curve"] for row in rows}
    legend = alt.Legend(orient="top") if len(curves) > 1 else None

    def panel(measure: str) -> Any:
        return (
            _data([row for row in rows if row["measure"] == measure], title=measure)
            .mark_line(point=True)
            .encode(
                x=x,
                y=alt.Y("value:Q", title=None, scale=_ANY_ZERO),
                color=alt.Color("curve:N", title=None, legend=legend),
                tooltip=_tip(["curve:N", x.shorthand], ["value"], ".3f"),
            )
            .properties(width=_PANEL, height=170)
        )

    return alt.concat(*map(panel, dict.fromkeys(row["measure"] for row in rows)), columns=2)


# who draws each kind, and the fields that its rows need
_KINDS: dict[str, tuple[Callable[[Rows], Any], str]] = {
    "histogram": (_histogram, "label original release count"),
    "density": (_density, "x y of share count"),
    "correlation": (_correlation, "first second original release"),
    "attacks": (_attacks, "label rate low high control baseline risk"),
    "groups": (_groups, "size level groups count"),
    "before_after": (_before_after, "name measure before after limit"),
    "error": (_error, "name predicted measured"),
    "ranking": (_ranking, "label value mark"),
    "frontier": (_risk_and_utility, "label curve k risk low high utility passes chosen link"),
    "grid": (_grid, "x y of share count x_place y_place"),
    "over_k": (partial(_panels, _ALONG["over_k"]), "curve k measure value"),
    "history": (partial(_panels, _ALONG["history"]), "curve seen measure value"),
    "challenge": (partial(_panels, _ALONG["challenge"]), "curve seconds measure value"),
}
FIELDS = {kind: fields.split() for kind, (_, fields) in _KINDS.items()}
