"""The search for the group size: what each size gives and takes, and for which class."""

from __future__ import annotations

from typing import Any

from tulle._charts.style import ORIGINAL, RELEASE, WIDTH, Rows

_PANEL = WIDTH // 2 - 40


def curve(rows: Rows) -> Any:
    """The frontier of accuracy and privacy, and both over the size."""
    import altair as alt

    return alt.hconcat(_frontier(rows), _over_size(rows)).resolve_scale(color="independent")


def class_curve(rows: Rows) -> Any:
    """The accuracy of each class over the size."""
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
    """The sizes for which no other is at least as accurate and as private, and better in one.

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
