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
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tulle._charts import spec
from tulle._files import atomic_write
from tulle._json import plain
from tulle._report.editions import COUNTS, edition_of
from tulle._report.markdown import as_markdown
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


def render(result: Mapping[str, Any], edition: str = "owner") -> str:
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


def to_json(result: Mapping[str, Any], edition: str = "owner") -> str:
    """The result as JSON; numbers that JSON does not know become null."""
    shown = edition_of(result, edition)
    return json.dumps(plain(shown), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def markdown(result: Mapping[str, Any], edition: str = "owner") -> str:
    """The result as Markdown."""
    return as_markdown(_prepared(result, edition))


def save(
    result: Mapping[str, Any],
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


def _prepared(result: Mapping[str, Any], edition: str) -> dict[str, Any]:
    """The edition, and its figures with their words."""
    shown = edition_of(result, edition)
    shown["figures"] = [
        {"name": name, "text": number(value, words.style), **words._asdict()}
        for name, value in sorted(shown["metrics"].items(), key=lambda entry: metric_rank(entry[0]))
        if isinstance(value, int | float)
        for words in [metric_words(name)]
    ]
    return shown


def _worst_attacks(attacks: Mapping[str, Any]) -> dict[str, Any]:
    """The attacks that are drawn: all, or if they are many the worst on each column."""
    if len(attacks) <= _MOST_BARS:
        return dict(attacks)
    worst: dict[str, str] = {}
    for name in sorted(attacks, key=lambda name: -attacks[name]["risk"]):
        worst.setdefault(name.partition(":")[2] or name, name)
    return {name: attacks[name] for name in worst.values()}


def _with_charts(shown: dict[str, Any], attacks: Mapping[str, Any]) -> dict[str, Any]:
    """Gives each chart of the result an id, and returns their specifications by id."""
    specs: dict[str, Any] = {}
    if attacks:
        rows = [{"label": attack_label(name), **attack} for name, attack in attacks.items()]
        specs["chart-attacks"] = spec("attacks", [_plain_attack(row) for row in rows])
    for place, section in enumerate(shown["sections"]):
        for chart, block in enumerate(section["blocks"]):
            if block["type"] == "chart":
                block["id"] = f"chart-{place}-{chart}"
                block["columns"] = _columns(block)
                specs[block["id"]] = spec(block["chart"], plain(block["rows"]))
    return specs


def _plain_attack(row: Mapping[str, Any]) -> dict[str, Any]:
    fields = ("label", "rate", "low", "high", "control", "baseline", "risk")
    return {field: row[field] for field in fields}


def _columns(block: Mapping[str, Any]) -> list[str]:
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
