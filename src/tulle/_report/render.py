"""From a result to a page, to JSON and to Markdown.

The page is one file that cannot phone home: a content security policy allows exactly the two
scripts in it (by their digests) and no connection at all. Templates are ordinary files in
``templates``; charts are drawn by one copy of the Vega bundle.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tulle._attacks.result import AttackFigures
from tulle._charts import spec
from tulle._files import atomic_write
from tulle._json import plain
from tulle._report.editions import COUNTS, edition_of
from tulle._report.model import Chart, Edition, Result, Section
from tulle._report.words import (
    as_given,
    attack_label,
    control_words,
    metric_rank,
    metric_words,
    number,
)
from tulle.errors import ParameterError

_TABLE_ROWS = 400  # of a chart or table on the page; the JSON has them all
_MOST_BARS = 24  # attacks that are all drawn


class _Page(Edition):
    figures: list[dict[str, Any]]  # the metrics with their words


def render(result: Result, edition: str = "owner") -> str:
    """One self-contained HTML page; ``edition`` is owner or public."""
    shown = _prepared(result, edition)
    charted = _worst_attacks(shown["attacks"])
    specs = _with_charts(shown, charted)
    page = _environment().get_template("page.html")
    driver = _template_text("charts.js")
    return str(
        page.render(
            shown=shown,
            charted=len(charted),
            policy=_content_policy(_bundle(), driver),
            style=_template_text("style.css"),
            bundle=_bundle(),
            driver=driver,
            specs=_for_script(specs),
        )
    )


def to_json(result: Result, edition: str = "owner") -> str:
    """The result as JSON; numbers that JSON does not know become null."""
    shown = edition_of(result, edition)
    return json.dumps(plain(shown), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def markdown(result: Result, edition: str = "owner") -> str:
    """The result as Markdown."""
    return _as_markdown(_prepared(result, edition))


def save(
    result: Result,
    path: str | os.PathLike[str],
    *,
    edition: str = "owner",
    force: bool = False,
) -> Path:
    """Writes ``path`` as its ending says: .html, .json or .md."""
    makers = {".html": render, ".htm": render, ".json": to_json, ".md": markdown}
    target = Path(path)
    if target.suffix.lower() not in makers:
        raise ParameterError(f"A report ends in .html, .json or .md. Got '{target.suffix}'.")
    text = makers[target.suffix.lower()](result, edition)
    with atomic_write(target, force=force) as file:
        file.write(text.encode(errors="replace"))  # file names need not be text
    return target


def _prepared(result: Result, edition: str) -> _Page:
    """Return the edition, and its figures with their words."""
    shown = edition_of(result, edition)
    figures = [
        {"name": name, "text": number(value, words.style), **words._asdict()}
        for name, value in sorted(shown["metrics"].items(), key=lambda entry: metric_rank(entry[0]))
        if isinstance(value, int | float)
        for words in [metric_words(name)]
    ]
    return {**shown, "figures": figures}


def _worst_attacks(attacks: Mapping[str, AttackFigures]) -> dict[str, AttackFigures]:
    """The attacks that are drawn: all, or if they are many the worst on each column."""
    if len(attacks) <= _MOST_BARS:
        return dict(attacks)
    worst: dict[str, str] = {}
    for name in sorted(attacks, key=lambda name: -attacks[name]["risk"]):
        worst.setdefault(name.partition(":")[2] or name, name)
    return {name: attacks[name] for name in worst.values()}


def _with_charts(shown: Edition, attacks: Mapping[str, AttackFigures]) -> dict[str, Any]:
    """Gives each chart of the result an id, and returns their specifications by id."""
    specs: dict[str, Any] = {}
    if attacks:
        rows = [_attack_row(name, attack) for name, attack in attacks.items()]
        specs["chart-attacks"] = spec("attacks", rows)
    for place, section in enumerate(shown["sections"]):
        for chart, block in enumerate(section["blocks"]):
            if block["type"] == "chart":
                block["id"] = f"chart-{place}-{chart}"
                block["columns"] = _columns(block)
                specs[block["id"]] = spec(block["chart"], plain(block["rows"]))
    return specs


def _attack_row(name: str, attack: AttackFigures) -> dict[str, Any]:
    return {
        "label": attack_label(name),
        "rate": attack["rate"],
        "low": attack["low"],
        "high": attack["high"],
        "control": attack["control"],
        "baseline": attack["baseline"],
        "risk": attack["risk"],
    }


def _columns(block: Chart) -> list[str]:
    return [name for name in (block["rows"][0] if block["rows"] else {}) if name not in COUNTS]


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tulle._report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["as_given"] = as_given
    environment.filters["share"] = lambda value: number(value, "share")
    environment.filters["attack_label"] = attack_label
    environment.filters["control_words"] = control_words
    environment.globals["most_rows"] = _TABLE_ROWS
    return environment


@cache
def _template_text(name: str) -> str:
    return resources.files("tulle._report").joinpath("templates", name).read_text("utf-8")


@cache
def _bundle() -> str:
    import vl_convert

    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return bundle


def _content_policy(*scripts: str) -> str:
    digests = (base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _for_script(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(plain(value), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# Markdown tells the same story as the page, without the pictures.


def _as_markdown(shown: _Page) -> str:
    return "\n".join(line for part in _parts(shown) for line in (*part, "")) + "\n"


def _parts(shown: _Page) -> Iterator[Sequence[str]]:
    yield [f"# {_inline(shown['title'])}"]
    for about, judged in (
        ("Privacy", shown["verdict"]["privacy"]),
        ("Use", shown["verdict"]["use"]),
    ):
        yield [f"**{about} ({judged['level']}). {_inline(judged['reason'])}**", ""]
        yield [f"Next: {_inline(judged['next'])}", ""]
        yield [f"- {_inline(detail)}" for detail in judged["details"]]
    if shown["summary"]:
        yield [_inline(shown["summary"])]
    if shown["guarantee"]:
        yield ["## Guarantee", "", _inline(shown["guarantee"]["text"])]
        promises = shown["guarantee"]["rows"]
        if promises:
            cells = [[row["name"], row["asked"], row["found"], row["holds"]] for row in promises]
            yield _table(["promise", "asked", "found", "holds"], cells)
    if shown["gates"]:
        gates = [[g["name"], g["limit"], g["value"], g["holds"]] for g in shown["gates"]]
        yield ["## Gates", "", *_table(["gate", "limit", "value", "holds"], gates)]
    if shown["attacks"]:
        yield ["## Attacks", "", *_attack_table(shown["attacks"])]
    if shown["figures"]:
        figures = [[f["label"], f["text"], f["help"]] for f in shown["figures"]]
        yield ["## Measures", "", *_table(["measure", "value", "meaning"], figures)]
    for section in shown["sections"]:
        yield from _section(section)
    if shown["limits"]:
        limits = [f"- {_inline(limit)}" for limit in shown["limits"]]
        yield ["## What this does not protect", "", *limits]
    if shown["command"]:
        yield ["## How it was made", "", *_fenced(shown["command"])]
    if shown["provenance"]:
        yield _table(["", ""], [[n, as_given(value)] for n, value in shown["provenance"].items()])


def _attack_table(attacks: Mapping[str, AttackFigures]) -> list[str]:
    header = ["attack", "rate", "95 % interval", "guessing", "control", "risk", "note"]
    rows = []
    for name, a in attacks.items():
        rate, low, high, guess, control, risk = (
            number(a[field], "share")
            for field in ("rate", "low", "high", "baseline", "control", "risk")
        )
        rows.append([attack_label(name), rate, f"{low} to {high}", guess, control, risk, a["note"]])
    return _table(header, rows)


def _section(section: Section) -> Iterator[Sequence[str]]:
    yield [f"## {_inline(section['title'])}", "", _inline(section["text"])]
    for block in section["blocks"]:
        if block["type"] == "facts":
            rows = [[r["name"], number(r["value"], r["style"]), r["help"]] for r in block["rows"]]
            yield _table(["", "value", "meaning"], rows)
        elif block["type"] == "table":
            yield _table(block["columns"], block["rows"])
        elif block["type"] == "list":
            yield [f"- {_inline(line)}" for line in block["rows"]]
        else:
            yield [f"*{_inline(block['title'] or block['chart'])}* (chart: see the page)"]


def _fenced(text: str) -> list[str]:
    """Text as it is, within a fence that nothing in it can close."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, text, fence]


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = [_row(header), "|" + " --- |" * len(header)]
    return lines + [_row(row) for row in rows]


def _row(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(_inline(number(cell)) for cell in cells) + " |"


def _inline(text: str) -> str:
    """Text that cannot start markup, break out of a table cell or carry HTML."""
    inline = " ".join(str(text).split())
    for character in "\\`*_[]|":
        inline = inline.replace(character, "\\" + character)
    return inline.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
