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
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tulle._attacks.result import AttackFigures
from tulle._files import atomic_write
from tulle._json import plain
from tulle._report.editions import COUNTS, edition_of
from tulle._report.fitness import graded, strain
from tulle._report.model import Chart, Edition, Result
from tulle._report.verdict import advice, grade
from tulle._report.words import (
    BOUND,
    CRITERIA,
    FINDINGS,
    PRESETS,
    answer,
    as_given,
    attack_label,
    control_words,
    criterion_of,
    metric_rank,
    metric_words,
    number,
    worst_told,
)
from tulle.errors import ParameterError
from tulle.table.policy import CONTEXT

_TABLE_ROWS = 400  # of a chart or table on the page; the JSON has them all
_MOST_BARS = 24  # attacks that are all drawn
_ORDER = ("grave", "notable", "undecided", "")  # of what an attack found, the worst first


Charts = dict[str, tuple[str, list[dict[str, Any]]]]  # kind and rows: drawing takes longer


class _Page(Edition):
    figures: list[dict[str, Any]]  # the metrics with their words
    questions: list[dict[str, Any]]  # what the attacks answer, the worst of each
    findings: dict[str, str]  # what each attack comes to
    remedies: list[dict[str, str]]  # against the attacks that found something
    answer: tuple[str, str]  # to "may we send it?", and what that means
    worst: dict[str, Any] | None  # the attack that decides, in words
    stories: list[dict[str, str]]  # of the attackers, each told once
    presets: list[dict[str, Any]]  # group sizes that are customary, and whether they are met


def render(result: Result, edition: str = "owner") -> str:
    """Render one self-contained HTML page; ``edition`` is owner or public."""
    shown, charted, charts = parts(result, edition)
    from tulle._charts import spec

    specs = {name: spec(kind, rows) for name, (kind, rows) in charts.items()}
    page = environment().get_template("page.html")
    driver = _template_text("charts.js")
    return str(
        page.render(
            shown=shown,
            charted=charted,
            policy=_content_policy(bundle(), driver),
            style=stylesheet(),
            bundle=bundle(),
            driver=driver,
            specs=for_script(specs),
        )
    )


def parts(result: Result, edition: str = "owner") -> tuple[_Page, int, Charts]:
    """Return what a page shows, how many attacks are drawn, and its charts by their ids."""
    shown = _prepared(result, edition)
    charted = _worst_attacks(shown["attacks"])
    return shown, len(charted), _with_charts(shown, charted)


def framed(page: str) -> str:
    """Return a page as a part of a notebook: its style and its content policy stay its own."""
    from html import escape

    shown = escape(page, quote=True)
    return f'<iframe srcdoc="{shown}" style="width:100%;height:40rem;border:0"></iframe>'


def to_json(result: Result, edition: str = "owner") -> str:
    """Render the result as JSON; numbers that JSON does not know become null."""
    shown = edition_of(result, edition)
    return json.dumps(plain(shown), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def markdown(result: Result, edition: str = "owner") -> str:
    """Render the result as Markdown: the story of the page, without the pictures."""
    written = environment().overlay(finalize=_inline).get_template("page.md")
    text = written.render(shown=_prepared(result, edition))
    return re.sub(r"\n{3,}", "\n\n", str(text)).strip() + "\n"


def save(
    result: Result, path: str | os.PathLike[str], *, edition: str = "owner", force: bool = False
) -> Path:
    """Write ``path`` in the format of its suffix: .html, .json or .md."""
    makers = {".html": render, ".htm": render, ".json": to_json, ".md": markdown}
    target = Path(path)
    if target.suffix.lower() not in makers:
        raise ParameterError(
            f"The name of a report must end in .html, .json or .md. Got '{target.suffix}'."
        )
    text = makers[target.suffix.lower()](result, edition)
    # the owner's edition counts single people
    with atomic_write(target, force=force, mode=0o600 if edition == "owner" else 0o644) as file:
        file.write(text.encode(errors="replace"))  # file names need not be text
    return target


def _prepared(result: Result, edition: str) -> _Page:
    """Return the edition, and its figures with their words."""
    shown = edition_of(result, edition)
    attacks = shown["attacks"]
    grades = {name: grade(name, attack, len(attacks)) for name, attack in attacks.items()}
    return {
        **shown,
        "figures": [
            _figure(name, value, shown["compared"], shown["chance"].get(name, 0.0))
            for name, value in sorted(shown["metrics"].items(), key=lambda e: metric_rank(e[0]))
            if isinstance(value, int | float)
        ],
        "questions": _questions(attacks, grades),
        "findings": {name: FINDINGS[found] for name, found in grades.items()},
        "remedies": _remedies(grades),
        "answer": answer(shown["verdict"]),
        "worst": _worst(attacks, grades),
        "stories": _stories(attacks),
        "presets": _presets(shown["smallest_group"]),
    }


def _worst(
    attacks: Mapping[str, AttackFigures], grades: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the attack that decides: how many of 100 people it is right about, and of others."""
    if not attacks:
        return None
    name = min(attacks, key=lambda n: (_ORDER.index(grades[n]), -attacks[n]["risk"]))
    found = attacks[name]
    others = found["baseline"] if found["control"] is None else found["control"]
    rows = [round(100 * min(1.0, max(0.0, rate))) for rate in (found["rate"], others)]
    words = worst_told(name, rows, strangers=found["control"] is not None)
    return {"label": attack_label(name), "story": found["story"], "rows": rows, **words}


def _figure(name: str, value: float, compared: int | None, own: float) -> dict[str, Any]:
    """Return a measure with its words, how good it is, and what to do about it."""
    words = metric_words(name)
    level, after = graded(name, value, compared, own) or ("", "")
    advice = after if level in ("caution", "bad") else ""
    return {
        "name": name,
        "text": number(value, words.style),
        **words._asdict(),
        "level": level,
        "advice": advice,
        "strain": strain(name, value, compared, own),
    }


def _questions(
    attacks: Mapping[str, AttackFigures], grades: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return each question with the worst attack that answers it."""
    rows = []
    for criterion in CRITERIA:
        names = [name for name in attacks if criterion_of(name) == criterion.name]
        if names:
            worst = min(names, key=lambda n: (_ORDER.index(grades[n]), -attacks[n]["risk"]))
            found = attacks[worst]
            rows.append(
                {
                    "name": criterion.name,
                    "question": criterion.question,
                    "attacks": len(names),
                    "worst": attack_label(worst),
                    "risk": found["risk"],
                    "low": max(-1.0, found["risk_low"]),
                    "high": min(1.0, found["risk_high"]),
                    "finding": FINDINGS[grades[worst]],
                }
            )
    return rows


def _remedies(grades: Mapping[str, str]) -> list[dict[str, str]]:
    """Return what helps against the attacks that found something, each advice once."""
    against: dict[str, list[str]] = {}
    for name, found in grades.items():
        if found in ("grave", "notable"):
            against.setdefault(advice(name), []).append(attack_label(name))
    return [{"against": ", ".join(labels), "advice": text} for text, labels in against.items()]


def _stories(attacks: Mapping[str, AttackFigures]) -> list[dict[str, str]]:
    """Return the stories of the attackers: one for all columns that the same one is tried on."""
    told: dict[tuple[str, str], list[str]] = {}
    first: dict[tuple[str, str], str] = {}
    for name, attack in attacks.items():
        kind, _, what = name.partition(":")
        who = what.rpartition(" (")[2].rstrip(")") if what.endswith(")") else ""
        told.setdefault((kind, who), []).append(what.removesuffix(f" ({who})"))
        first.setdefault((kind, who), attack["story"])
    return [
        {
            "label": attack_label(kind) + (f" ({who})" if who else ""),
            "story": first[kind, who],
            "also": ", ".join(columns[1:]),
        }
        for (kind, who), columns in told.items()
    ]


def _presets(smallest: int | None) -> list[dict[str, Any]]:
    if smallest is None:
        return []
    return [{**preset._asdict(), "holds": smallest >= preset.k} for preset in PRESETS]


def _worst_attacks(attacks: Mapping[str, AttackFigures]) -> dict[str, AttackFigures]:
    """Return the attacks to draw: all, or if there are many, the worst on each column."""
    if len(attacks) <= _MOST_BARS:
        return dict(attacks)
    worst: dict[str, str] = {}
    for name in sorted(attacks, key=lambda name: -attacks[name]["risk"]):
        worst.setdefault(name.partition(":")[2] or name, name)
    return {name: attacks[name] for name in worst.values()}


def _with_charts(shown: _Page, attacks: Mapping[str, AttackFigures]) -> Charts:
    """Give each chart of the result an id, and return their kinds and rows by id."""
    charts: Charts = {}
    if attacks:
        rows = [_attack_row(name, attack) for name, attack in attacks.items()]
        charts["chart-attacks"] = "attacks", rows
    judged = [f for f in shown["figures"] if f["strain"] is not None]
    if judged:
        judged.sort(key=lambda f: -f["strain"])
        rows = [{"label": f["label"], "value": f["strain"], "mark": 1.0} for f in judged]
        charts["chart-measures"] = "ranking", rows
    for place, section in enumerate(shown["sections"]):
        for chart, block in enumerate(section["blocks"]):
            if block["type"] == "chart":
                block["id"] = f"chart-{place}-{chart}"
                block["columns"] = _columns(block)
                charts[block["id"]] = block["chart"], plain(block["rows"])
    return charts


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
def environment(*packages: str) -> Any:
    """Return the templates of reports, behind those of other packages."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, "tulle._report")]),
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
    environment.filters["fenced"] = _fenced
    environment.globals["most_rows"] = _TABLE_ROWS
    environment.globals["context_fields"] = CONTEXT
    environment.globals["bound"] = BOUND
    return environment


def stylesheet() -> str:
    """Return the style of reports, which the app shares."""
    return _template_text("style.css")


@cache
def _template_text(name: str) -> str:
    return resources.files("tulle._report").joinpath("templates", name).read_text("utf-8")


def bundle() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script (``scripts/vega`` writes it)."""
    return _template_text("vega.js")


def _content_policy(*scripts: str) -> str:
    digests = (base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def for_script(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(plain(value), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _fenced(text: str) -> Any:
    """Keep the text unchanged, within a fence that nothing in it can close."""
    from markupsafe import Markup

    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}\n{text}\n{fence}")


def _inline(value: Any) -> Any:
    """Write a value so that it cannot start markup, break out of a table or carry HTML."""
    from markupsafe import Markup

    if isinstance(value, Markup):
        return value
    inline = " ".join(number(value).split())
    for character in "\\`*_[]|":
        inline = inline.replace(character, "\\" + character)
    return Markup(inline.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
