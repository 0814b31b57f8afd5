"""What the pages show: files in, words and numbers for the templates out."""

from __future__ import annotations

import json
import re
import shlex
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tulle._app import families
from tulle._app.jobs import RunningJob
from tulle._app.pictures import FEWEST, read_pair
from tulle._app.study import SITES, Release, Study, all_releases, files, is_table_name, studies
from tulle._json import plain
from tulle._report.fitness import SMALLER
from tulle._report.verdict import LARGER
from tulle._report.words import BOUND, GATE_WORDS, PRESETS, ROLES, attack_label, metric_words
from tulle.auditing._gates import gate_rows
from tulle.errors import ParameterError, PolicyError
from tulle.exploring._choice import SIZES
from tulle.exploring._page import frontier_rows
from tulle.exploring._points import Point
from tulle.exploring.explore import Exploration
from tulle.table.policy import CONTEXT
from tulle.table.schema import Kind, Role

Drawn = tuple[str, list[dict[str, Any]]]  # the kind of a chart, and its rows
STEPS = {
    "data": "Data",
    "roles": "Columns",
    "context": "Recipient",
    "release": "Release",
    "explore": "Compare sizes",
}
warm = threading.Event()  # two threads that import altair or scikit-learn at once see halves
warm.set()
SETS = {  # gates that fit a recipient, and where they come from
    "the public": (2, "an excess that Tulle's verdict calls notable"),
    "a named partner under contract": (5, "between the two; custom, not law"),
    "a secure room": (10, "an excess that Tulle's verdict calls grave"),
}


@cache
def _templates() -> Any:
    from tulle._report.render import environment

    found = environment("tulle._app")
    found.filters["duration"] = duration
    found.filters["bytes"] = _size
    found.globals |= {"steps": STEPS, "most_columns": 60}  # at once: all hundreds take seconds
    return found


def rendered(template: str, study: Study | None, **more: Any) -> str:
    """Return a page; one about a table has its strip on top."""
    given = {"step": "", "again": False, "study": study, **more}
    if "strip" not in given:
        given["strip"] = strip(study) if study else None
    return str(_templates().get_template(template).render(**given))


def duration(seconds: float | None) -> str:
    """Return seconds in words: about as exact as they are known."""
    if seconds is None:
        return "not known yet"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _size(count: int) -> str:
    """Return bytes as people say them."""
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{max(1, round(count / 1e3))} kB"


def strip(study: Study) -> list[tuple[str, str, str]]:
    """Return what is always on top: name, value and meaning."""
    rows, persons = study.inspection.get("records"), None
    gates: dict[str, Any] = {}
    problem = ""
    try:
        persons = study.persons
        gates = {name: study.parameters("explore").get(name) for name in GATE_WORDS}
    except PolicyError as error:
        problem = str(error)
    count = sum(limit is not None for limit in gates.values())
    last = study.releases()[-1:]
    k = last[0].chosen.get("k") if last else None
    verdict = last[0].verdict if last else None
    return [
        ("file", study.name, "your table"),
        ("rows", f"{rows:,}" if rows else "not read yet", "in the table"),
        ("people", f"{persons:,}" if persons else "not said yet", "groups count people, not rows"),
        ("k", str(k or "not chosen yet"), "people in the smallest group"),
        (
            "limits",
            problem or (f"{count} set" if count else "none set"),
            "on what an attack may reach",
        ),
        (
            "verdict",
            verdict["privacy"]["level"] if verdict else "no release yet",
            "on privacy, of the last release",
        ),
    ]


def start(root: Path) -> dict[str, Any]:
    """Return what there is to begin with: tables, and files of the other families."""
    others = [study for study in files(root) if not is_table_name(study.name)]
    return {
        "studies": studies(root),
        "baskets": [f for f in others if f.name.endswith((".dat", ".dat.gz"))],
        "texts": [f for f in others if f.name.endswith((".txt", ".txt.gz"))],
        "streams": [f for f in others if f.name.endswith(".state")],
        "sites": Study(root, SITES),
    }


# -- jobs -------------------------------------------------------------------------------------


def job_of(study: Study, step: str) -> RunningJob:
    """Return the job that a page waits for."""
    match = re.fullmatch(r"made:(\d{1,9})", step)
    if match:
        made = study.release(int(match[1]))
        return made.proof if made.proof.state == "running" else made.job
    if step == "data":
        return study.job("inspect")
    if step == "explore":
        return study.explore_job
    if step in families.STEPS:
        return study.job(step)
    raise ParameterError("this job does not exist")


def address(step: str) -> str:
    """Return the page of a job."""
    return step.replace("made:", "releases/")


def state(study: Study, step: str) -> tuple[str, bool]:
    """Return a word that changes when a page should be shown again, and whether it may yet."""
    if step == "stream":
        from tulle.stream._checkpoints import is_running

        return str(study.source.stat().st_mtime_ns), is_running(study.source)
    job = job_of(study, step)
    found = job.state
    points = study.explore_place / "points" if step == "explore" else None
    count = len(list(points.glob("*.json"))) if points and points.is_dir() else 0
    progress = job.progress
    told = f"{found}-{len(job.codes)}-{progress['done']:.0f}-{count}-{progress['spent'] // 2:.0f}"
    return told, found == "running"


# -- pages ------------------------------------------------------------------------------------


def data(study: Study) -> dict[str, Any]:
    """Return what was found in the table, and the one question before a first release."""
    columns = study.policy.columns
    shapes = study.job("inspect").result(1).get("columns", {})
    drawn = [
        {"place": place, "column": column, "bars": shapes.get(column.name, [])}
        for place, column in enumerate(columns)
    ]
    return {
        "drawn": drawn,
        "naming": [one for one in drawn if one["column"].role is Role.IDENTIFIER],
        "aside": [one for one in drawn if one["column"].role is Role.IGNORED],
        "person": study.column_with(Role.PERSON),
        "unit": study.answers.get("unit"),
        "fewest": FEWEST,
    }


def roles(study: Study) -> dict[str, Any]:
    """Return one line for each column, what stays out first, and the policy as text."""
    known = {row["name"]: row for row in study.inspection.get("columns", [])}
    alone = {row["columns"]: row for row in study.inspection.get("singled_out_by", [])}
    shapes = study.job("inspect").result(1).get("columns", {})
    lines = [
        {
            "place": place,
            "name": column.name,
            "column": column,
            "found": known.get(column.name, {}),
            "why": column.reason,
            "alone": alone.get(column.name, {}).get("share"),
            "bars": shapes.get(column.name, []),
        }
        for place, column in enumerate(study.policy.columns)
    ]
    out = {name for name, row in known.items() if not Role(row["role"]).released}
    return {
        # by what was found: a line must not leave the place where somebody changes it
        "lines": sorted(lines, key=lambda line: line["name"] not in out),
        "rules": study.inspection.get("rules_between_columns", []),
        "kinds": list(Kind),
        "roles": ROLES,
        "combinations": study.inspection.get("singled_out_by", []),
        "text": study.policy_file.read_text(),
        "policy_name": study.policy_file.name,
    }


def context(study: Study) -> dict[str, Any]:
    """Return the questions with their answers, and the gates."""
    return {
        "questions": CONTEXT,
        "told": study.policy.context,
        "target": study.column_with(Role.TARGET),
        "gates": [
            {
                "name": name,
                "words": GATE_WORDS[name],
                "value": _percent(study.parameters("explore").get(name)),
            }
            for name in GATE_WORDS
        ],
        "sets": SETS,
        "presets": PRESETS,
        "preset": study.parameters("audit").get("preset"),
        "bound": BOUND,
    }


def _percent(share: Any) -> str:
    return "" if not isinstance(share, int | float) else f"{100 * share:g}"


def explore(study: Study) -> dict[str, Any]:
    """Return the frontier, as a picture and as rows to choose from."""
    given = study.parameters("explore")
    more: dict[str, Any] = {
        "job": study.explore_job,
        "sizes": ", ".join(str(k) for k in given.get("k", (10, 20, 50))),
        "methods": given.get("synthesis", ("shape",)),
        "found": None,
        "forecast": "",
    }
    found = study.exploration()
    if found is None:
        return more
    more["forecast"] = forecast(study, found)
    named = found.choice.point
    return more | {
        "found": found,
        "choice": found.choice,
        "rows": [
            {**row, "point": point, "attack": attack_label(point.attack) if point.attack else ""}
            for row, point in zip(found.rows(), found.latest)
        ],
        "choosable": any(p.spec.is_release and not p.error for p in found.latest),
        "selected": named.id if named else None,
        "is_quick": all(point.spec.round == "quick" for point in found.latest),
        "drawn": bool(_drawn(found)),
    }


def _drawn(found: Exploration) -> list[Point]:
    return [p for p in found.latest if p.risk is not None and p.utility is not None]


def frontier(study: Study) -> Drawn | None:
    """Return the picture of risk and utility, each release a link to its page."""
    found = study.exploration()
    shown = _drawn(found) if found else []
    if found is None or not shown:
        return None
    rows = [
        {**row, "link": f"/t/{study.id}/points/{point.id}" if point.spec.is_release else ""}
        for row, point in zip(frontier_rows(found, shown), shown)
    ]
    return "frontier", plain(rows)


def forecast(study: Study, found: Exploration) -> str:
    """Return what the rest of a running exploration takes, from the points that are there.

    The whole table takes longer than the sample (attacks try more people, models learn from more),
    and releases take longer than the references that come first.
    """
    progress = study.explore_job.progress
    left = (progress["total"] or 0) - progress["done"]
    if study.explore_job.state != "running" or left <= 0 or not found.points:
        return ""
    computed = sum(p.seconds for p in found.points)
    slower = max(1.0, progress["spent"] / max(computed, 0.1))  # others use the machine too
    whole = [p.seconds for p in found.points if p.spec.round == "whole" and p.spec.is_release]
    if whole:
        return f"about {duration(slower * left * sum(whole) / len(whole))} to go"
    each = slower * computed / len(found.points)
    rows = (study.inspection.get("records") or 0) / max(1, found.points[0].records)
    return f"at least {duration(each * left * max(1.0, rows) ** 0.8)} to go"


def point(study: Study, shown: Point) -> dict[str, Any]:
    """Return everything about one point, in the words of the reports."""
    found = study.exploration()
    scale = found.scale(shown) if found else None
    more: dict[str, Any] = {"point": shown, "scale": scale, "page": None, "charted": 0}
    if shown.audit is None:
        return more | {"attacks": _attack_rows(shown)}
    from tulle._report.render import parts

    page, charted, _ = parts(shown.audit)  # type: ignore[arg-type]
    return more | {"page": page, "charted": charted}


def point_chart(shown: Point, name: str) -> Drawn | None:
    """Return one picture of a point: there are dozens, and each is drawn when it is seen."""
    from tulle._report.render import parts

    return parts(shown.audit)[2].get(name) if shown.audit else None  # type: ignore[arg-type]


def _attack_rows(shown: Point) -> list[tuple[str, Any]]:
    found = sorted(shown.attacks.items(), key=lambda pair: -pair[1]["risk"])
    return [(attack_label(name), figures) for name, figures in found]


def compare(study: Study, named: Sequence[str]) -> dict[str, Any]:
    """Return two points side by side: verdict, attacks and measures."""
    found = study.exploration()
    releases = [p for p in found.latest if p.spec.is_release and not p.error] if found else []
    pair = [next((p for p in releases if p.id == name), None) for name in named]
    if pair[0] is not None and pair[1] in (None, pair[0]):
        pair[1] = next((p for p in releases if p is not pair[0]), None)
    both = [p for p in pair if p is not None]
    attacks = sorted({name for p in both for name in p.attacks})
    metrics = list(both[0].metrics) if both else []
    return {
        "releases": releases,
        "named": [p.id if p else "" for p in pair],
        "pair": both if len(both) == 2 else None,
        "attacks": [(attack_label(n), [p.attacks.get(n) for p in both]) for n in attacks],
        "metrics": [(metric_words(n), [p.metrics.get(n) for p in both]) for n in metrics],
    }


def release(study: Study) -> dict[str, Any]:
    """Return what is to be known before a release, and the releases so far."""
    told = study.policy.context
    empty = [question for name, question in CONTEXT.items() if not told.get(name)]
    return {
        "empty": empty,
        "out": [c for c in study.policy.columns if not c.role.released],
        "earlier": study.releases(),
    }


def made(study: Study, shown: Release) -> dict[str, Any]:
    """Return one release: what was found, what helps, what it looks like, what can be had."""
    job, pictures = shown.job, shown.pictures
    verdict = shown.verdict
    return {
        "made": shown,
        "job": shown.proof if shown.proof.state == "running" else job,
        "job_step": f"made:{shown.number}",
        "first": job,
        "verdict": verdict,
        "remedies": remedies(study, shown) if verdict else [],
        "looks": _looks(verdict, pictures),
        "left_out": job.result(0).get("left_out", []),
        "merged": [n for n in job.result(0).get("notes", []) if n.startswith("column '")],
        "checks": job.result(1).get("checks", []),
        "gates": _gates(study, shown),
        "pictures": pictures,
        "files": shown.files() if job.state != "running" else {},
        "together": shown.together,
        "command": "tulle " + shlex.join(shown.facts["command"]),
        "proof": shown.proof,
        "proven": shown.is_proven if shown.proof.state == "done" else None,
        "earlier": [r for r in study.releases() if r.number < shown.number and r.data.is_file()],
        "fewest": FEWEST,
    }


def _gates(study: Study, shown: Release) -> list[Any]:
    """Return the limits that were set, against what attacks on this release found."""
    limits = {name: study.parameters("explore").get(name) for name in GATE_WORDS}
    if not any(limits.values()) or not (shown.place / "report.json").is_file():
        return []
    try:
        return gate_rows(_result(shown), limits)
    except ParameterError as error:  # of an attack that was not tried
        return [{"name": str(error), "limit": None, "value": None, "holds": False}]


def remedies(study: Study, shown: Release) -> list[dict[str, str]]:
    """Return what the verdict advises as buttons: the words on it, a field and its value."""
    verdict, k = shown.verdict or {}, shown.chosen.get("k") or 0
    poor = [judged for judged in verdict.values() if judged["level"] != "good"]
    text = " ".join(judged["next"] for judged in poor)
    found = []
    if LARGER in verdict["privacy"]["next"].lower():
        found += [(f"k = {size}", "k", str(size)) for size in SIZES if size > k][:1]
    elif verdict["privacy"]["level"] == "good" and SMALLER[0] in text.lower():
        found += [(f"k = {size}", "k", str(size)) for size in SIZES[::-1] if size < k][:1]
    places = {c.name: place for place, c in enumerate(study.policy.columns) if c.role.released}
    named = _named_in(" ".join([text, *(j["reason"] for j in poor if j["level"] == "bad")]), places)
    found += [(f"Leave out {name}", "leave", str(places[name])) for name in named]
    return [{"words": words, "name": name, "value": value} for words, name, value in found]


def _looks(verdict: Any, pictures: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the columns that a poor verdict names, and where their pictures are."""
    names = list(pictures.get("columns", {}))
    poor = [one["reason"] for one in (verdict or {}).values() if one["level"] != "good"]
    return [(name, names.index(name)) for name in _named_in(" ".join(poor), names)]


def _named_in(text: str, known: Collection[str]) -> list[str]:
    """Return the columns that a sentence names; 'age (most)' is the column age of a person."""
    quoted = re.findall(r"'([^']+)'", text)
    told = dict.fromkeys(n if n in known else n.rpartition(" (")[0] for n in quoted)
    return [name for name in told if name in known]


def look(shown: Release, named: Sequence[str]) -> dict[str, Any]:
    """Return the columns that can be looked at, and which one or two are."""
    names = list(shown.pictures.get("columns", {}))
    chosen = [int(word) if word.isdigit() and int(word) < len(names) else None for word in named]
    return {
        "made": shown,
        "names": names,
        "chosen": chosen,
        "titles": [names[place] for place in chosen if place is not None],
        "chart": "chart-" + "-".join(str(place) for place in chosen if place is not None),
        "fewest": FEWEST,
    }


def release_chart(study: Study, shown: Release, name: str) -> Drawn | None:
    """Return the picture of one column, of two, or of how all are related."""
    columns = shown.pictures.get("columns", {})
    places = [int(word) for word in name.removeprefix("chart-").split("-") if word.isdigit()]
    names = [list(columns)[place] for place in places if place < len(columns)]
    if name == "chart-related":
        return _related(shown)
    if len(names) == 1:
        return "histogram", columns[names[0]]
    if len(names) != 2:
        return None
    rows = read_pair(study.address, shown.data, shown.policy, names, FEWEST)
    return ("grid", rows) if rows else None


def _related(shown: Release) -> Drawn | None:
    from tulle._report.render import parts

    charts = parts(_result(shown))[2].values() if (shown.place / "report.json").is_file() else []
    return next((drawn for drawn in charts if drawn[0] == "correlation"), None)


def report(shown: Release, word: str) -> str:
    """Return the owner's or the public report as a page."""
    from tulle._report import render

    return render(_result(shown), "public" if word == "public" else "owner")


def _result(shown: Release) -> Any:
    return json.loads((shown.place / "report.json").read_text())


def history(root: Path) -> list[dict[str, Any]]:
    """Return the releases of the folder, the last one first."""
    found = []
    today = time.strftime("%Y-%m-%d")  # dates are compared as they are written
    for study, shown in all_releases(root):
        context: Mapping[str, str] = {}
        with suppress(PolicyError):  # a policy that somebody is editing
            context = study.policy.context
        found.append(
            {
                "study": study,
                "made": shown,
                "state": shown.job.state,
                "verdict": shown.verdict,
                "until": context.get("until", ""),
                "is_due": bool(context.get("until")) and context["until"] < today,
                "together": max((row.get("risk") or 0.0 for row in shown.together), default=None),
                "again": sum(r.number < shown.number for r in study.releases()),
            }
        )
    return sorted(found, key=lambda row: row["made"].facts["created"], reverse=True)
