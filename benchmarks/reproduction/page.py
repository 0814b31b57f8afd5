"""The page: what is printed next to what was measured, with a verdict for every number."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MEASURED = HERE / "measured"
PAGE = HERE.parent.parent / "docs" / "reproduction.md"

# verdicts on numbers, with the sign that stands for them in the tables
SIGNS = {
    "exact": "✓",
    "within error": "±",
    "partly": "~",
    "not": "✗",
    "misprint": "!",
    "no data": "–",
}
CLAIM_VERDICTS = ("shape", "partly", "not")
MEANING = {
    "exact": "rounded or cut off to the printed digits, ours is the printed number",
    "within error": "within two standard errors, which are at most 5 % of it",
    "partly": "within 10 % of it",
    "not": "does not come out",
    "misprint": "the print is wrong, see the proof below",
    "no data": "we do not have the data or the program",
}
KINDS = {
    "file shape": "the shape of a file",
    "arithmetic": "arithmetic: worked examples, formulas, definitions, Table 3 of 004, quartiles",
    "algorithm": "an algorithm, run on data",
}
_CLOSE = 0.10  # "partly"
_TIGHT = 0.05  # of the printed value: an error beyond that says nothing
# a claim of the first kind holds if the share of cases is that of the second, partly from the third
_QUANTIFIERS = {"all": (1.0, 0.5), "most": (0.5001, 0.25), "many": (0.25, 0.1)}
_BOUNDS = ("at least", "at most", "below", "between")


def write_page() -> None:
    """Write docs/reproduction.md and the figures."""
    from benchmarks.reproduction.figures import draw_all

    draw_all(measurements())
    PAGE.write_text(page(), encoding="utf-8")


def printed() -> dict[str, Any]:
    """What the papers print."""
    return tomllib.loads((HERE / "printed.toml").read_text(encoding="utf-8"))


def measurements() -> dict[str, dict[str, Any]]:
    """What was measured, by experiment."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(MEASURED.glob("*.json"))
    }


def page() -> str:
    """The whole page, from the file of printed values and the measurements alone."""
    told, found = printed(), measurements()
    papers = []
    for paper in told["paper"]:
        papers.append(f"## {paper['title']}")
        papers.append(f"{paper['what']} ({paper['authors']}; {paper['number']}).")
        papers += [_section(item, found) for item in told["item"] if item["paper"] == paper["key"]]
    parts = {
        "scoreboard": _scoreboard(told, found),
        "kinds": _kinds(told, found),
        "legend": "\n".join(f"- {SIGNS[one]} **{one}**: {why}" for one, why in MEANING.items()),
        "papers": "\n\n".join(papers),
        "misprints": _misprints(told),
        "bibliography": _bibliography(told),
    }
    text = (HERE / "template.md").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text


# --- verdicts -----------------------------------------------------------------------------


def verdict(text: str, ours: Any, *, column: str = "", misprint: bool = False) -> str:
    """Return the verdict on one printed number; ``ours`` is a number, [number, error] or None."""
    if misprint:
        return "misprint"
    if ours is None:
        return "no data"
    value, error = ours if isinstance(ours, list) else (ours, 0.0)
    if column in _BOUNDS:
        return _bounded(text, float(value), column)
    number = Decimal(text)
    gap = abs(float(number) - float(value))
    if error == 0 and (gap < 1e-6 or _is_printed_as(number, float(value))):
        return "exact"
    size = abs(float(number))
    if gap <= 2 * error and error <= _TIGHT * size:
        return "within error"
    return "partly" if gap <= _CLOSE * size else "not"


def _is_printed_as(number: Decimal, value: float) -> bool:
    """Whether a value, rounded or cut off to the digits of a printed decimal, is that decimal."""
    unit = Decimal(1).scaleb(int(number.as_tuple().exponent))
    ours = Decimal(repr(round(value, 9)))  # 2.125, not 2.12499999999
    ways = (ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_DOWN)
    return unit < 1 and number in [ours.quantize(unit, way) for way in ways]


def _bounded(text: str, value: float, column: str) -> str:
    if column == "between":
        low, high = (float(end) for end in text.split(" to "))
        return "exact" if low <= value <= high else "not"
    bound = float(text)
    holds = {"at least": value >= bound, "at most": value <= bound, "below": value < bound}
    return "exact" if holds[column] else "not"


def claim_verdict(holds: float, of: float, quantifier: str = "all") -> str:
    """Return the verdict on a sentence that holds in some of the cases."""
    share = holds / of if of else 0.0
    full, part = _QUANTIFIERS[quantifier]
    if share >= full:
        return "shape"
    return "partly" if share >= part else "not"


def numbers(item: dict[str, Any], found: dict[str, Any]) -> list[tuple[str, str, str, Any, str]]:
    """Return row, column, printed, ours and verdict of each number of an item."""
    values = found.get(item["experiment"], {}).get("values", {})
    wrong = item.get("misprints", {})
    rows = []
    for row, columns in item.get("printed", {}).items():
        for column, text in columns.items():
            ours = values.get(row, {}).get(column)
            misprint = row in wrong or f"{row} / {column}" in wrong
            said = verdict(text, ours, column=column, misprint=misprint)
            rows.append((row, column, text, ours, said))
    return rows


def claims(item: dict[str, Any], found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return sentence, ours and verdict of each claim of an item."""
    measured = found.get(item["experiment"], {}).get("claims", {})
    rows = []
    for claim in item.get("claim", []):
        one = measured.get(claim["key"])
        if one is None:
            continue
        said = claim_verdict(one["holds"], one["of"], claim.get("quantifier", "all"))
        ours = one["ours"]
        if one["of"] > 1:
            ours = f"{one['holds']:g} of {one['of']:g} {ours}"
        rows.append((claim["says"], ours, said))
    return rows


# --- parts of the page --------------------------------------------------------------------


def _scoreboard(told: dict[str, Any], found: dict[str, Any]) -> str:
    """Two tables, of numbers and of claims: a line for each paper, and one for all."""
    counts: dict[str, Counter[str]] = {"**all**": Counter()}
    for item in told["item"]:
        paper = next(one for one in told["paper"] if one["key"] == item["paper"])
        own = counts.setdefault(f"{paper['number']} {paper['key']}", Counter())
        for count in (own, counts["**all**"]):
            count.update(row[-1] for row in numbers(item, found))
            count.update(f"claim {row[-1]}" for row in claims(item, found))
    lines = [*list(counts.items())[1:], next(iter(counts.items()))]
    total = counts["**all**"]
    shown = sum(total[one] for one in SIGNS) - total["no data"]
    return "\n".join(
        [
            _line(["numbers", *SIGNS]),
            "|" + " --- |" * (1 + len(SIGNS)),
            *(_line([name, *(count[one] for one in SIGNS)]) for name, count in lines),
            "",
            f"{shown} printed numbers stand next to ours; {total['no data']} more belong to data "
            "or programs that we do not have.",
            "",
            _line(["claims", *CLAIM_VERDICTS]),
            "|" + " --- |" * (1 + len(CLAIM_VERDICTS)),
            *(
                _line([name, *(count[f"claim {one}"] for one in CLAIM_VERDICTS)])
                for name, count in lines
            ),
        ]
    )


def exact_by_kind(told: dict[str, Any], found: dict[str, Any]) -> dict[str, Counter[str]]:
    """How many numbers of each kind there are (those with data), are exact, and are kept bounds."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for item in told["item"]:
        for _, column, _, _, said in numbers(item, found):
            kind = item.get("kinds", {}).get(column, item.get("kind", "algorithm"))
            count = counts[kind]
            count["numbers"] += said != "no data"
            bound = column in _BOUNDS
            count["bounds kept" if bound else "exact"] += said == "exact"
    return counts


def _kinds(told: dict[str, Any], found: dict[str, Any]) -> str:
    counts = exact_by_kind(told, found)
    exact = sum(count["exact"] + count["bounds kept"] for count in counts.values())
    own = counts["algorithm"]
    columns = ("numbers", "exact", "bounds kept")
    repaired = sum(len(item.get("repaired", {})) for item in told["item"])
    return "\n".join(
        [
            f"**Of the {exact} exact numbers, an algorithm had to produce {own['exact']} from "
            f"data**, and kept {own['bounds kept']} printed bounds. The others are shapes of "
            "files, which show that we hold the same data, and arithmetic:",
            "",
            _line(["what a number takes", *columns]),
            "|" + " --- |" * (1 + len(columns)),
            *(_line([KINDS[kind], *(counts[kind][one] for one in columns)]) for kind in KINDS),
            "",
            f"Quotes are as printed, except in {repaired} rows that our copy garbles; they say so.",
        ]
    )


def _section(item: dict[str, Any], found: dict[str, Any]) -> str:
    parts = [f"### {item['where']}: {item['title']}"]
    parts.append(
        f"*Protocol.* {item['protocol']} *Assumed.* {item['assumed']} *Runs.* {item['runs']}"
    )
    asked = "; ".join(f"`{command}`" for command in item["commands"])
    parts.append(f"*By command.* {asked}")
    for row, reads in item.get("repaired", {}).items():
        parts.append(f"*Repaired.* {row}: our copy of the paper reads {reads}.")
    rows = numbers(item, found)
    if rows:
        parts.append(_number_table(rows))
    judged = claims(item, found)
    if judged:
        lines = [_line(["the paper says", "ours", "verdict"]), "| --- | --- | --- |"]
        lines += [_line(row) for row in judged]
        parts.append("\n".join(lines))
    notes = found.get(item["experiment"], {}).get("notes")
    if notes:
        parts.append(notes)
    if "figure" in item:
        parts.append(f"![{item['title']}](../benchmarks/results/{item['figure']}.svg)")
    return "\n\n".join(parts)


def _number_table(rows: list[tuple[str, str, str, Any, str]]) -> str:
    columns = list(dict.fromkeys(row[1] for row in rows))
    cells = {(row, column): _cell(text, ours, said) for row, column, text, ours, said in rows}
    bare = columns == ["value"]
    lines = [_line(["", *(["printed → ours"] if bare else columns)])]
    lines.append("|" + " --- |" * (1 + len(columns)))
    for row in dict.fromkeys(row[0] for row in rows):
        lines.append(_line([row, *(cells.get((row, column), "") for column in columns)]))
    return "\n".join(lines)


def _cell(text: str, ours: Any, said: str) -> str:
    if ours is None:
        return f"{_grouped(text)} {SIGNS[said]}"
    value, error = ours if isinstance(ours, list) else (ours, 0.0)
    digits = len(text.split(".")[1]) if re.fullmatch(r"\d+\.\d+", text) else None
    if isinstance(value, int) or float(value).is_integer():
        shown = f"{int(value):,}"
    elif digits is not None:
        shown = f"{value:,.{max(digits, 2)}f}"
    else:
        shown = f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    spread = f" ± {error:.2g}" if error else ""
    return f"{_grouped(text)} → {shown}{spread} {SIGNS[said]}"


def _grouped(text: str) -> str:
    return f"{int(text):,}" if text.isdigit() else text


def _line(cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _misprints(told: dict[str, Any]) -> str:
    return "\n".join(f"- **{one['what']}.** {one['proof']}" for one in told["misprint"].values())


def _bibliography(told: dict[str, Any]) -> str:
    return "\n".join(
        f"- **{one['number']}** {one['authors']}. *{one['title']}*. {one['where']}."
        for one in told["paper"]
    )
