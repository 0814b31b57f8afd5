"""The codebook of a release: what each column holds, as JSON in the words of DDI and as a page.

Everything in it is counted in the release, which its readers have anyway, and nothing is said that
fewer than k of its records show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tulle._report.render import environment
from tulle.table.schema import Column, Kind

_MOST_VALUES = 100  # of a column that are listed
_CONTINUOUS = (Kind.INTEGER, Kind.DECIMAL, Kind.DATETIME)


def codebook(
    release: pl.DataFrame, columns: Sequence[Column], labels: Mapping[str, Any], k: int, title: str
) -> dict[str, Any]:
    """Return the codebook; ``labels`` are what the file of the original says of its columns."""
    known = {column.name: column for column in columns}
    variables = [
        _variable(series, known[series.name], labels.get(series.name), k) for series in release
    ]
    return {
        "codeBook": {
            "stdyDscr": {"titl": title, "notes": "Synthetic records: nobody's own answers."},
            "fileDscr": {"caseQnty": release.height, "varQnty": release.width},
            "dataDscr": {"var": variables},
        }
    }


def codebook_page(book: Mapping[str, Any]) -> str:
    """Return the codebook as one page."""
    page: str = environment().get_template("codebook.html").render(book=book["codeBook"])
    return page


def _variable(series: pl.Series, column: Column, labels: Any, k: int) -> dict[str, Any]:
    """Return what is said of one column."""
    texts = {} if labels is None else labels.values
    codes = column.special if labels is None else (*column.special, *labels.codes(series))
    gone = pl.Series([value is None or value in codes for value in series], dtype=pl.Boolean)
    found: dict[str, Any] = {
        "name": series.name,
        "labl": labels.label if labels is not None else "",
        "intrvl": "contin" if column.kind in _CONTINUOUS else "discrete",
        "varFormat": column.kind.value,
        "role": column.role.value,
        "missing": _share(int(gone.sum()), len(series), k),
    }
    values = series.filter(~gone)
    if column.kind in _CONTINUOUS and values.n_unique() > 1 and len(values) >= 2 * k:
        ordered = values.sort()
        found["valrng"] = {"min": _plain(ordered[k - 1]), "max": _plain(ordered[-k])}
    listed = series if column.kind not in _CONTINUOUS else series.filter(gone)
    counts = listed.drop_nulls().value_counts(sort=True).filter(pl.col("count") >= k)
    found["catgry"] = [
        {"catValu": _plain(value), "labl": texts.get(value, ""), "share": _share(n, len(series), k)}
        for value, n in counts.head(_MOST_VALUES).iter_rows()
    ]
    return found


def _share(count: int, records: int, k: int) -> float | None:
    """Return a share in whole per mille; None where fewer than ``k`` records are behind it."""
    return None if 0 < count < k else round(count / records, 3)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool) else str(value)
