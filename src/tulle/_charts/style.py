"""What all charts share: colours, sizes and the look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Rows = Sequence[Mapping[str, Any]]

ORIGINAL, RELEASE, CONTROL = "#4c78a8", "#e8871e", "#8a63b5"
WIDTH = 760
MOST_NAMES = 40  # of rules or attacks in one picture; the table below it has them all


def of_colour(**options: Any) -> Any:
    import altair as alt

    scale = alt.Scale(domain=["original", "release"], range=[ORIGINAL, RELEASE])
    return alt.Color("of:N", scale=scale, title=None, **options)


def in_house_style(drawn: Any) -> Any:
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
