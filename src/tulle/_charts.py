"""The charts of reports and notebooks: rows of aggregates in, an Altair chart out.

The page carries whatever is plotted, so rows must be aggregates; the makers here only draw. The
same function serves the report, a notebook and a web page: text and lines take the colour of
their surroundings (``currentColor``), so that light, dark and print need no second chart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tulle._checks import check_choice
from tulle.errors import ParameterError

Rows = Sequence[Mapping[str, Any]]

FIELDS: dict[str, tuple[str, ...]] = {
    "histogram": ("label", "original", "release", "count"),
    "density": ("x", "y", "of", "share", "count"),
    "correlation": ("first", "second", "original", "release"),
    "attacks": ("label", "rate", "low", "high", "control", "baseline", "risk"),
    "groups": ("size", "level", "groups", "count"),
    "curve": ("size", "accuracy", "privacy", "chosen"),
    "class_curve": ("class", "size", "accuracy"),
    "before_after": ("name", "measure", "before", "after", "limit"),
    "error": ("name", "predicted", "measured"),
    "ranking": ("label", "value", "mark"),
    "frontier": (
        "label",
        "curve",
        "k",
        "risk",
        "low",
        "high",
        "utility",
        "passes",
        "chosen",
        "link",
    ),
    "grid": ("x", "y", "of", "share", "count", "x_place", "y_place"),
    "over_k": ("curve", "k", "measure", "value"),
    "history": ("curve", "seen", "measure", "value"),
    "challenge": ("curve", "seconds", "measure", "value"),
}
ORIGINAL, RELEASE, CONTROL = "#4c78a8", "#e8871e", "#8a63b5"
_PASSES = "#2e8b57"
_AXES = ("risk", "utility")
WIDTH = 760
_HEIGHT = 380  # of a frontier
MOST_NAMES = 40  # of rules or attacks in one picture; the table below it has them all
_PANEL = WIDTH // 2 - 40


def chart(kind: str, rows: Rows, *, title: str = "") -> Any:
    """Return an Altair chart of one of the kinds that :mod:`tulle._report` lists."""
    check_choice("chart", "kind", kind, FIELDS)
    for field in FIELDS[kind]:
        if any(field not in row for row in rows):
            raise ParameterError(f"A row of the chart '{kind}' lacks the field '{field}'.")
    drawn = _MAKERS[kind](list(rows))
    return _in_house_style(drawn.properties(title=title) if title else drawn)


def spec(kind: str, rows: Rows) -> dict[str, Any]:
    """Return the same chart as a Vega-Lite dictionary."""
    # the shape of a kind does not depend on its rows, so the tests check it once for all
    described: dict[str, Any] = chart(kind, rows).to_dict(validate=False)
    return described


# What all charts share.


def _of_colour(**options: Any) -> Any:
    import altair as alt

    scale = alt.Scale(domain=["original", "release"], range=[ORIGINAL, RELEASE])
    return alt.Color("of:N", scale=scale, title=None, **options)


def _in_house_style(drawn: Any) -> Any:
    ink = "currentColor"
    return (
        drawn.configure(background="transparent", font="system-ui, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=ink,
            titleColor=ink,
            domainColor=ink,
            tickColor=ink,
            gridColor=ink,
            gridOpacity=0.15,
            titleFontWeight="normal",
            labelLimit=220,
            labelFontSize=12,
            titleFontSize=12,
        )
        .configure_legend(
            labelColor=ink, titleColor=ink, labelLimit=320, labelFontSize=12, titleFontSize=12
        )
        .configure_header(labelColor=ink, titleColor=ink, labelFontSize=12)
        .configure_title(color=ink, fontWeight="normal", anchor="start")
    )


# Original and release side by side: columns, axes and correlations.


def _histogram(rows: Rows) -> Any:
    import altair as alt

    folded = [
        {"label": row["label"], "of": of, "share": row[of]}
        for row in rows
        for of in ("original", "release")
        if row[of] is not None
    ]
    order = [row["label"] for row in rows]
    return (
        alt.Chart(alt.Data(values=folded))
        .mark_bar()
        .encode(
            x=alt.X(
                "label:N",
                sort=order,
                title=None,
                axis=alt.Axis(labelAngle=-40),
                scale=alt.Scale(domain=order),  # bars that are hidden keep their place
            ),
            xOffset=alt.XOffset("of:N", sort=["original", "release"]),
            y=alt.Y("share:Q", title="share of records", axis=alt.Axis(format="%")),
            color=_of_colour(),
            tooltip=["label:N", "of:N", alt.Tooltip("share:Q", format=".1%")],
        )
        .properties(width=WIDTH, height=180)
    )


def _density(rows: Rows) -> Any:
    import altair as alt

    return (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_circle(opacity=0.75)
        .encode(
            x=alt.X("x:Q", title="first principal axis", scale=alt.Scale(zero=False)),
            y=alt.Y("y:Q", title="second principal axis", scale=alt.Scale(zero=False)),
            size=alt.Size(
                "share:Q",
                title="share",
                legend=alt.Legend(format=".1%"),
                scale=alt.Scale(range=[4, 220]),
            ),
            color=_of_colour(legend=None),
            tooltip=["of:N", alt.Tooltip("share:Q", format=".2%")],
        )
        .properties(width=WIDTH // 2 - 20, height=260)
        .facet(column=alt.Column("of:N", title=None))
    )


def _correlation(rows: Rows) -> Any:
    import altair as alt

    names = list(dict.fromkeys(row["first"] for row in rows))
    side = max(110, min(260, 15 * len(names)))
    values = [
        {**row, "difference": row["release"] - row["original"]}
        for row in rows
        if row["original"] is not None and row["release"] is not None
    ]

    def matrix(field: str, *, labels: bool) -> Any:
        scale = alt.Scale(scheme="blueorange", domain=[-1, 1], domainMid=0)
        return (
            alt.Chart(alt.Data(values=values), title=field)
            .mark_rect()
            .encode(
                x=alt.X("second:N", sort=names, title=None, axis=alt.Axis(labelAngle=-90)),
                y=alt.Y("first:N", sort=names, title=None, axis=alt.Axis(labels=labels)),
                color=alt.Color(f"{field}:Q", scale=scale, title=""),
                tooltip=["first:N", "second:N", alt.Tooltip(f"{field}:Q", format=".2f")],
            )
            .properties(width=side, height=side)
        )

    fields = ("original", "release", "difference")
    return alt.hconcat(*(matrix(field, labels=field == "original") for field in fields), spacing=8)


# What was measured: attacks, groups, hidden rules and estimates.


def _attacks(rows: Rows) -> Any:
    import altair as alt

    shown = list(rows)[:MOST_NAMES]
    words = ["attack", "control", "baseline: guessing"]
    colours = dict(zip(words, [RELEASE, CONTROL, "#8c8c8c"]))
    if all(row["control"] is None for row in shown):
        del colours[words[1]]  # no entry in the legend for what is not there
    colour = alt.Color(
        "of:N",
        title=None,
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(orient="top"),
    )
    rates = ("rate", "control", "baseline", "risk")
    tip = ["label:N", *(alt.Tooltip(f"{field}:Q", format=".1%") for field in rates)]

    def layer(of: str, field: str) -> Any:
        known = [{**row, "of": of} for row in shown if row[field] is not None]
        return alt.Chart(alt.Data(values=known)).encode(
            y=alt.Y(
                "label:N",
                sort=[row["label"] for row in shown],
                title=None,
                axis=alt.Axis(labelLimit=320),
            ),
            x=alt.X(
                f"{field}:Q",
                title="success rate, with its 95 % interval",
                axis=alt.Axis(format="%"),
                scale=alt.Scale(domain=[0, 1]),
            ),
            tooltip=tip,
        )

    drawn = alt.layer(
        layer(words[0], "rate").mark_bar(height=12, opacity=0.85).encode(color=colour),
        layer(words[0], "low").mark_rule(color="currentColor").encode(x2="high:Q"),
        layer(words[2], "baseline").mark_tick(thickness=3, height=20).encode(color=colour),
        layer(words[1], "control").mark_tick(thickness=4, height=20).encode(color=colour),
    )
    return drawn.properties(width=WIDTH - 120, height=alt.Step(30))


def _groups(rows: Rows) -> Any:
    import altair as alt

    sizes = len({row["size"] for row in rows})
    return (
        alt.Chart(alt.Data(values=list(rows)))
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
    import altair as alt

    names = list(dict.fromkeys(row["name"] for row in rows))[:MOST_NAMES]
    shown = [row for row in rows if row["name"] in set(names)]
    folded = [
        {"name": row["name"], "measure": row["measure"], "when": when, "value": row[when]}
        for row in shown
        for when in ("before", "after")
        if row[when] is not None
    ]
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=260))

    def panel(measure: str, *, labels: bool) -> Any:
        mine = [row for row in shown if row["measure"] == measure]
        dots = [row for row in folded if row["measure"] == measure]
        row_axis = y if labels else y.axis(labels=False)
        span = alt.Chart(alt.Data(values=mine)).mark_rule(color="currentColor", opacity=0.5)
        dot = alt.Chart(alt.Data(values=dots)).mark_point(filled=True, size=70, opacity=1)
        limited = [row for row in mine if row["limit"] is not None]
        limit = alt.Chart(alt.Data(values=limited)).mark_tick(color="#c0392b", height=14)
        colour = alt.Color(
            "when:N",
            title=None,
            scale=alt.Scale(domain=["before", "after"], range=[ORIGINAL, RELEASE]),
        )
        tip = ["name:N", "when:N", alt.Tooltip("value:Q", format=".4f")]
        layers = alt.layer(
            span.encode(y=row_axis, x=alt.X("before:Q", title=measure), x2="after:Q"),
            limit.mark_tick(color="#c0392b", thickness=2, height=14).encode(
                y=row_axis, x="limit:Q"
            ),
            dot.encode(y=row_axis, x="value:Q", color=colour, tooltip=tip),
        )
        return layers.properties(width=220, height=alt.Step(18))

    measures = list(dict.fromkeys(row["measure"] for row in shown))
    return alt.hconcat(*(panel(m, labels=i == 0) for i, m in enumerate(measures)))


def _error(rows: Rows) -> Any:
    import altair as alt

    known = [row for row in rows if row["predicted"] is not None and row["measured"] is not None]
    ends = [v for row in known for v in (row["predicted"], row["measured"])] or [0.0, 1.0]
    line = [{"predicted": end, "measured": end} for end in (min(ends), max(ends))]
    # errors grow with the records: on a straight scale the largest would hide all others
    wide = min(ends) > 0 and max(ends) > 50 * min(ends)
    scale = alt.Scale(type="log", nice=False) if wide else alt.Scale(zero=False)
    x = alt.X("predicted:Q", title="predicted error", scale=scale)
    y = alt.Y("measured:Q", title="measured error", scale=scale)
    diagonal = alt.Chart(alt.Data(values=line)).mark_line(
        strokeDash=[4, 3], color="currentColor", opacity=0.6
    )
    dots = alt.Chart(alt.Data(values=known)).mark_point(filled=True, size=60, color=RELEASE)
    tip = ["name:N", "predicted:Q", "measured:Q"]
    layers = alt.layer(diagonal.encode(x=x, y=y), dots.encode(x=x, y=y, tooltip=tip))
    return layers.properties(width=WIDTH, height=240)


def _ranking(rows: Rows) -> Any:
    """Draw bars, the first on top, with a mark for what would be expected."""
    import altair as alt

    shown = list(rows)[:MOST_NAMES]
    marked = [row for row in shown if row["mark"] is not None]
    y = alt.Y(
        "label:N",
        sort=[row["label"] for row in shown],
        title=None,
        axis=alt.Axis(labelLimit=320),
    )
    tip = ["label:N", *(alt.Tooltip(f"{field}:Q", format=".3~g") for field in ("value", "mark"))]

    def layer(known: Rows, field: str) -> Any:
        x = alt.X(f"{field}:Q", title=None, scale=alt.Scale(zero=True))
        return alt.Chart(alt.Data(values=list(known))).encode(y=y, x=x, tooltip=tip)

    bars = layer(shown, "value").mark_bar(height=12, color=RELEASE, opacity=0.85)
    marks = layer(marked, "mark").mark_tick(thickness=4, height=20, color=CONTROL)
    layers = [bars, marks] if marked else [bars]
    return alt.layer(*layers).properties(width=WIDTH - 120, height=alt.Step(22))


# The search for the group size: what each size gives and takes, and for which class.


def _curve(rows: Rows) -> Any:
    """Draw the frontier of accuracy and privacy, and both over the size."""
    import altair as alt

    return alt.hconcat(_frontier(rows), _over_size(rows)).resolve_scale(color="independent")


def _class_curve(rows: Rows) -> Any:
    """Draw the accuracy of each class over the size."""
    import altair as alt

    return (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_line(point=True)
        .encode(
            x=_size(),
            y=alt.Y(
                "accuracy:Q",
                title="accuracy",
                axis=alt.Axis(format="%"),
                scale=alt.Scale(zero=False),
            ),
            color=alt.Color("class:N", title="class"),
            tooltip=["class:N", "size:Q", alt.Tooltip("accuracy:Q", format=".1%")],
        )
        .properties(width=WIDTH, height=220)
    )


def undominated(rows: Rows) -> Rows:
    """Return the sizes for which no other is as accurate and as private, and better in one.

    >>> rows = [dict(accuracy=a, privacy=p) for a, p in [(0.9, 0.1), (0.8, 0.3), (0.7, 0.2)]]
    >>> len(undominated(rows))
    2
    """
    kept, most = [], float("-inf")
    for row in sorted(rows, key=lambda row: (-row["accuracy"], -row["privacy"])):
        if row["privacy"] > most:
            kept.append(row)
            most = row["privacy"]
    return kept


def _frontier(rows: Rows) -> Any:
    import altair as alt

    known = [row for row in rows if row["accuracy"] is not None and row["privacy"] is not None]
    x = alt.X("privacy:Q", title="privacy (interval width)", scale=alt.Scale(zero=False))
    y = alt.Y("accuracy:Q", title="accuracy", scale=alt.Scale(zero=False))
    tip = [
        "size:Q",
        alt.Tooltip("accuracy:Q", format=".3f"),
        alt.Tooltip("privacy:Q", format=".3f"),
    ]

    def layer(shown: Rows) -> Any:
        return alt.Chart(alt.Data(values=list(shown))).encode(x=x, y=y, tooltip=tip)

    chosen = [row for row in known if row["chosen"]]
    return alt.layer(
        layer(undominated(known)).mark_line(color=ORIGINAL, opacity=0.6),
        layer(known).mark_point(filled=True, color=ORIGINAL, size=45, opacity=1),
        layer(chosen).mark_point(filled=False, color=RELEASE, size=220, strokeWidth=3, opacity=1),
        layer(chosen)
        .mark_text(dy=-18, color="currentColor", fontSize=12)
        .transform_calculate(label="'k = ' + datum.size")
        .encode(text="label:N"),
    ).properties(width=_PANEL, height=220, title="frontier: no size is better in both")


def _over_size(rows: Rows) -> Any:
    import altair as alt

    folded = [
        {"size": row["size"], "measure": measure, "value": row[measure]}
        for row in rows
        for measure in ("accuracy", "privacy")
        if row[measure] is not None
    ]
    colours = alt.Scale(domain=["accuracy", "privacy"], range=[ORIGINAL, RELEASE])
    lines = (
        alt.Chart(alt.Data(values=folded))
        .mark_line(point=True)
        .encode(
            x=_size(),
            y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
            color=alt.Color(
                "measure:N", title=None, scale=colours, legend=alt.Legend(orient="bottom")
            ),
            tooltip=["size:Q", "measure:N", alt.Tooltip("value:Q", format=".3f")],
        )
    )
    chosen = [{"size": row["size"]} for row in rows if row.get("chosen")]
    mark = alt.Chart(alt.Data(values=chosen)).mark_rule(strokeDash=[4, 3], color="currentColor")
    title = "over the group size"
    return alt.layer(lines, mark.encode(x=_size())).properties(
        width=_PANEL, height=220, title=title
    )


def _size() -> Any:
    import altair as alt

    return alt.X("size:Q", title="group size k", scale=alt.Scale(type="log", nice=False))


# The exploration: releases between what they risk and what they give.


def _risk_and_utility(rows: Rows) -> Any:
    """Draw releases on their curves, each a link to its attacks; what passes stands on green.

    The axes are chosen by the releases. References that lie beyond them (the records themselves
    risk everything) are in the table; their utility is a line if it is near.
    """
    import altair as alt

    releases = [row for row in rows if row["curve"]] or list(rows)
    sides = (
        _span([row["risk"] for row in releases], 0.02),
        _span([row["utility"] for row in releases], 0.01),
    )
    shown = [row for row in rows if all(a <= row[f] <= b for f, (a, b) in zip(_AXES, sides))]
    references = [row for row in shown if not row["curve"]]
    releases = [row for row in releases if row["curve"]]
    scales = [alt.Scale(domain=list(side), nice=False) for side in sides]
    x, y = (
        alt.X(
            "risk:Q",
            title="risk: worst excess over people who were kept out",
            axis=alt.Axis(format="%", tickCount=8),
            scale=scales[0],
        ),
        alt.Y(
            "utility:Q",
            title="utility",
            axis=alt.Axis(tickCount=6),
            scale=scales[1],
        ),
    )
    tip = [
        "label:N",
        *(alt.Tooltip(f"{field}:Q", format=".1%") for field in ("risk", "low", "high")),
        alt.Tooltip("utility:Q", format=".3f"),
    ]

    def layer(some: Rows) -> Any:
        return alt.Chart(alt.Data(values=list(some))).encode(x=x, y=y, tooltip=tip)

    # a layer without rows would make Vega complain of an infinite extent
    drawn = []
    safe = _passing_until(releases)
    if safe is not None:
        area = alt.Chart(alt.Data(values=[{"risk": sides[0][0], "until": safe}]))
        drawn.append(area.mark_rect(color=_PASSES, opacity=0.14).encode(x=x, x2="until:Q"))
    if references:
        drawn.append(layer(references).mark_point(shape="diamond", color="#8c8c8c", filled=True))
    if releases:
        colour = alt.Color("curve:N", title=None, legend=alt.Legend(orient="top"))
        spans = [
            {**row, "low": max(sides[0][0], row["low"]), "high": min(sides[0][1], row["high"])}
            for row in releases
        ]
        drawn += [
            layer(releases).mark_line(opacity=0.5).encode(color=colour, order="k:Q"),
            layer(spans).mark_rule(opacity=0.35).encode(x="low:Q", x2="high:Q", color=colour),
            layer(releases)
            .mark_point(filled=True, size=110, opacity=1, cursor="pointer")
            .encode(color=colour, href="link:N"),
        ]
    chosen = [row for row in releases if row["chosen"]]
    if chosen:
        large = layer(chosen).mark_point(filled=True, color=_PASSES, size=420, opacity=1)
        drawn.append(large.encode(href="link:N"))
    placed = _placed([*chosen, *(r for r in releases if not r["chosen"]), *references], sides)
    if placed:
        text = layer(placed).mark_text(fontSize=12, color="currentColor")
        text = text.encode(x=alt.X("at_x:Q", scale=scales[0]), y=alt.Y("at_y:Q", scale=scales[1]))
        drawn.append(text.encode(text="word:N"))
    return alt.layer(*drawn).properties(width=WIDTH, height=_HEIGHT)


def _span(values: Sequence[float], least: float) -> tuple[float, float]:
    """Return the ends of an axis that shows values with some room about them."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = max(least, 0.15 * (high - low))
    return low - room, high + room


def _passing_until(releases: Rows) -> float | None:
    """Return up to which risk everything that was measured passes."""
    failing = [row["risk"] for row in releases if not row["passes"]]
    end = min(failing, default=float("inf"))
    return max(
        (row["risk"] for row in releases if row["passes"] and row["risk"] < end), default=None
    )


def _placed(rows: Rows, sides: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """Return labels beside their points, where no other label is; without room there is none."""
    scales = [length / (b - a) for length, (a, b) in zip((WIDTH, _HEIGHT), sides)]
    taken: list[tuple[float, float, float]] = []
    found = []
    for row in rows:
        word = f"k = {row['k']}" if row["curve"] else row["label"]
        wide = 3.6 * len(word)  # half of it, in pixels
        for dx, dy in ((0, 20), (0, -20), (wide + 12, 0), (-wide - 12, 0), (0, 34), (0, -34)):
            across, up = row["risk"] * scales[0] + dx, row["utility"] * scales[1] + dy
            free = all(abs(across - x) > wide + w or abs(up - y) > 14 for x, y, w in taken)
            if free:
                taken.append((across, up, wide))
                at = {"at_x": across / scales[0], "at_y": up / scales[1], "word": word}
                found.append({**row, **at})
                break
    return found


def _grid(rows: Rows) -> Any:
    """Draw how often bars of two columns come together, original and release side by side."""
    import altair as alt

    orders = [
        [label for _, label in sorted({(row[f"{axis}_place"], row[axis]) for row in rows})]
        for axis in ("x", "y")
    ]
    return (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_rect()
        .encode(
            x=alt.X("x:N", sort=orders[0], title=None, axis=alt.Axis(labelAngle=-40)),
            y=alt.Y("y:N", sort=orders[1][::-1], title=None),
            color=alt.Color("share:Q", title="share", scale=alt.Scale(scheme="blues"),
                            legend=alt.Legend(format=".0%")),
            tooltip=["of:N", "x:N", "y:N", alt.Tooltip("share:Q", format=".2%")],
        )
        .properties(width=WIDTH // 2 - 60, height=300)
        .facet(column=alt.Column("of:N", title=None))
    )  # fmt: skip


def _over_k(rows: Rows) -> Any:
    """Draw a panel for each measure, all over the same k."""
    import altair as alt

    return _panels(rows, alt.X("k:Q", title="k", scale=alt.Scale(type="log", nice=False)))


def _history(rows: Rows) -> Any:
    """Draw a panel for each measure of a stream, all over the records seen."""
    import altair as alt

    axis = alt.Axis(format="~s", tickCount=5)
    return _panels(rows, alt.X("seen:Q", title="records seen", axis=axis))


def _challenge(rows: Rows) -> Any:
    """Draw what attackers achieve over their time."""
    import altair as alt

    scale = alt.Scale(type="log", nice=False)
    return _panels(rows, alt.X("seconds:Q", title="CPU seconds of the attacker", scale=scale))


def _panels(rows: Rows, x: Any) -> Any:
    import altair as alt

    measures = list(dict.fromkeys(row["measure"] for row in rows))
    curves = {row["curve"] for row in rows}
    legend = alt.Legend(orient="top") if len(curves) > 1 else None

    def panel(measure: str) -> Any:
        shown = [row for row in rows if row["measure"] == measure]
        return (
            alt.Chart(alt.Data(values=shown), title=measure)
            .mark_line(point=True)
            .encode(
                x=x,
                y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
                color=alt.Color("curve:N", title=None, legend=legend),
                tooltip=["curve:N", x.shorthand, alt.Tooltip("value:Q", format=".3f")],
            )
            .properties(width=_PANEL, height=170)
        )

    return alt.concat(*map(panel, measures), columns=2)


_MAKERS = {
    "histogram": _histogram,
    "density": _density,
    "correlation": _correlation,
    "attacks": _attacks,
    "groups": _groups,
    "curve": _curve,
    "class_curve": _class_curve,
    "before_after": _before_after,
    "error": _error,
    "ranking": _ranking,
    "frontier": _risk_and_utility,
    "grid": _grid,
    "over_k": _over_k,
    "history": _history,
    "challenge": _challenge,
}
