"""Original and release side by side: columns, axes and correlations."""

from __future__ import annotations

from typing import Any

from tulle._charts.style import WIDTH, Rows, of_colour


def histogram(rows: Rows) -> Any:
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
            color=of_colour(),
            tooltip=["label:N", "of:N", alt.Tooltip("share:Q", format=".1%")],
        )
        .properties(width=WIDTH, height=180)
    )


def density(rows: Rows) -> Any:
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
            color=of_colour(legend=None),
            tooltip=["of:N", alt.Tooltip("share:Q", format=".2%")],
        )
        .properties(width=WIDTH // 2 - 20, height=260)
        .facet(column=alt.Column("of:N", title=None))
    )


def correlation(rows: Rows) -> Any:
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
