"""What was measured: attacks, groups, hidden rules and estimates."""

from __future__ import annotations

from typing import Any

from tulle._charts.style import CONTROL, MOST_NAMES, ORIGINAL, RELEASE, WIDTH, Rows


def attacks(rows: Rows) -> Any:
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


def groups(rows: Rows) -> Any:
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


def before_after(rows: Rows) -> Any:
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


def error(rows: Rows) -> Any:
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
