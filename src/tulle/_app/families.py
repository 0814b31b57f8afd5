"""Pages of the other families: baskets, texts, sites and streams.

A step is a form, the command that it runs, and what the command wrote. Baskets are mined, then
rules are picked and hidden; texts are sketched; sites agree, encode, join and decode; the state of
a stream is watched.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from tulle._app.jobs import RunningJob
from tulle._app.pictures import FEWEST
from tulle._app.study import SITES, Study, changed_column, files, is_table_name, keep
from tulle._report.words import ROLES
from tulle.errors import DataError, ParameterError
from tulle.table.policy import load_policy, write_policy
from tulle.table.schema import Kind

Form = dict[str, str]
_MOST_RULES = 200  # to pick from; the file has them all
_WORDS = tomllib.loads((Path(__file__).parent / "words.toml").read_text("utf-8"))


class Field(NamedTuple):
    """A field of a form: ``kind`` is text, choice, check or checks."""

    name: str
    label: str
    kind: str = "text"
    value: str = ""
    options: tuple[tuple[str, str], ...] = ()
    meaning: str = ""


class Step(NamedTuple):
    """What a page asks, which command it runs, and which files that leaves."""

    title: str
    lead: str
    button: str
    fields: Callable[[Study], list[Field]]
    command: Callable[[Study, Form], list[str]]
    files: Callable[[Study], dict[str, tuple[Path, str]]]


def flow_of(step: str) -> dict[str, str]:
    """Return the steps that a page belongs to, with their names."""
    return next(flow for flow in FLOWS if step in flow)


def task(study: Study, step: str) -> dict[str, Any]:
    """Return what the page of a step shows: its form, and what its command found."""
    asked, job = STEPS[step], study.job(step)
    found, flow = job.result(), list(flow_of(step))
    after = flow[flow.index(step) + 1 :][:1] if job.state == "done" else []
    lines = linked_lines(study) if step == "linked" else []
    return {
        "asked": asked,
        "fields": asked.fields(study),
        "job": job,
        "verdict": found.get("verdict"),
        "figures": [(name, found[name], meaning) for name, meaning in _WORDS["figures"].items()
                    if isinstance(found.get(name), int | float | str)],
        "lines": lines,
        "no_intervals": str(found.get("intervals", "")).startswith("none"),
        "roles": ROLES,
        "kinds": list(Kind),
        "drawn": job.result(1).get("tables", {}) if step == "together" else {},
        "fewest": FEWEST,
        "after": after[0] if after else "",
        "tables": [] if lines else list(_tables(found)),
        # where files are is said by links, and the policy is edited on the page
        "notes": [line for line in found.get("notes", []) if study.place.name not in line],
        "files": {} if job.state == "running" else _written(asked.files(study)),
        "strip": strip(study, job),
        "steps": flow_of(step),
    }  # fmt: skip


def start(study: Study, step: str, form: Form) -> None:
    """Run the command of a step on what was filled in."""
    study.place.mkdir(mode=0o700, exist_ok=True)
    commands = [[*STEPS[step].command(study, form), "--json"]]
    if step in _DRAWN:
        policy, made = study.within(study.place / _LINKED), study.within(study.place / "together")
        commands.append(["pictures", ".", policy, *([made] if step == "together" else [])])
    study.job(step).start(study.root, commands)


def strip(study: Study, job: RunningJob) -> list[tuple[str, str, str]]:
    """Return what is always on top of these pages."""
    verdict = job.result().get("verdict")
    level = verdict["privacy"]["level"] if verdict else "none yet"
    name = "this folder" if study.name == SITES else study.name
    return [
        ("file", name, "what is protected"),
        ("verdict", level, "what attacks on the last result found"),
    ]


def _tables(found: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[Any]]]]:
    """Yield the tables that a command printed: title, header and rows."""
    for name, rows in found.items():
        if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
            header = list(rows[0])
            cells = [[row.get(column) for column in header] for row in rows]
            yield (
                _WORDS["tables"].get(name, name),
                [column.replace("_", " ") for column in header],
                cells,
            )


def _written(named: dict[str, tuple[Path, str]]) -> dict[str, tuple[Path, str]]:
    return {word: pair for word, pair in named.items() if pair[0].is_file()}


def _option(form: Form, name: str) -> list[str]:
    """Return an option of the command line in one word, so that no value can be another option."""
    value = form.get(name, "")
    return [f"--{name.replace('_', '-')}={value}"] if value else []


def _accepting(study: Study, step: str) -> list[Field]:
    """Ask who takes the risk, where the verdict was bad."""
    verdict = study.job(step).result().get("verdict") or {}
    if verdict.get("privacy", {}).get("level") != "bad":
        return []
    label = "The verdict is bad. Reason for accepting the risk (it goes into the manifest)"
    return [Field("accept_risk", label)]


def _columns(study: Study) -> tuple[tuple[str, str], ...]:
    from tulle.io.read import read_schema

    return tuple((name, name) for name in read_schema(study.address))


# -- baskets ----------------------------------------------------------------------------------


def _thresholds(study: Study) -> list[Field]:
    told = study.answers.get("baskets", {})
    fields = [
        Field("min_support", "Minimum support", value=told.get("min_support", "1%"),
              meaning="the share of baskets that hold all items of a rule, or their number"),
        Field("min_confidence", "Minimum confidence", value=told.get("min_confidence", "60%"),
              meaning="how often the rule is right where it applies"),
    ]  # fmt: skip
    if is_table_name(study.name) or "#" in study.name:
        columns = _columns(study)
        fields += [
            Field("basket", "Column of baskets", "choice", told.get("basket", ""), columns,
                  "whose rows with the same value are one basket"),
            Field("item", "Column of items", "choice", told.get("item", ""), columns,
                  "what is in the basket"),
        ]  # fmt: skip
    return fields


def _mine(study: Study, form: Form) -> list[str]:
    given = {
        name: form.get(name, "") for name in ("min_support", "min_confidence", "basket", "item")
    }
    study.answer(baskets={name: value for name, value in given.items() if value})
    output = study.within(study.place / "rules.csv")
    return ["mine", study.word, *_baskets_as_told(study), "-o", output, "--force"]


def _baskets_as_told(study: Study) -> list[str]:
    told = study.answers.get("baskets", {})
    return [word for name in told for word in _option(told, name)]


def _mined(study: Study) -> list[dict[str, str]]:
    """Return the strongest rules, as far as a person reads them."""
    try:
        with (study.place / "rules.csv").open(newline="") as file:
            return list(islice(csv.DictReader(file), _MOST_RULES))
    except OSError:
        return []


def _rules_to_pick(study: Study) -> list[Field]:
    rules = _mined(study)
    options = tuple(
        (str(place), f"{rule['antecedent']} -> {rule['consequent']} "
         f"(support {float(rule['support']):.2%}, confidence {float(rule['confidence']):.0%})")
        for place, rule in enumerate(rules)
    )  # fmt: skip
    count = study.job("mine").result().get("rules", 0)
    label = f"Rules to hide ({len(options)} of {count}, the strongest first)"
    return [Field("rule", label, "checks", options=options), *_accepting(study, "hide")]


def _hide(study: Study, form: Form) -> list[str]:
    rules = _mined(study)
    picked = [place for place in checked(form, "rule") if int(place) < len(rules)]
    if not picked:
        raise ParameterError("choose at least one rule to hide; mine the baskets first")
    lines = [f"{rules[int(p)]['antecedent']} -> {rules[int(p)]['consequent']}" for p in picked]
    keep(study.place / "secret-rules.txt", "\n".join(lines) + "\n")
    words = ["hide", study.word, "-o", study.within(_shared(study)), *_baskets_as_told(study)]
    words += ["--rules", study.within(study.place / "secret-rules.txt"), "--force"]
    words += ["--report", study.within(study.place / "hide-report.html")]
    return words + _option(form, "accept_risk")


def checked(form: Form, name: str) -> list[str]:
    """Return which boxes of a list were ticked: each is a field of its own."""
    found = [key.partition("-")[2] for key in form if key.startswith(f"{name}-")]
    return [place for place in found if place.isalnum()]


def _shared(study: Study) -> Path:
    suffix = ".parquet" if "#" in study.name else "".join(Path(study.name).suffixes) or ".dat"
    return study.place / f"shared{suffix}"


def _hidden_files(study: Study) -> dict[str, tuple[Path, str]]:
    return {
        "data": (_shared(study), "the baskets to share"),
        "manifest": (Path(f"{_shared(study)}.manifest.json"), "what was verified, without rules"),
        "report": (study.place / "hide-report.html", "owner's report, with the rules: keep it"),
        "rules": (study.place / "secret-rules.txt", "the rules that you chose: keep them secret"),
    }


# -- texts ------------------------------------------------------------------------------------


def _sketching(study: Study) -> list[Field]:
    models = (("delta", "each word stays uncertain"), ("k-variance", "people stay alike"))
    fields = [
        Field("model", "Guarantee", "choice", "delta", models,
              "what the number below limits"),
        Field("delta", "delta", value="0.5", meaning="for the first guarantee: least variance of a "
              "guessed word; larger is safer"),
        Field("k", "k", value="10", meaning="for the second: records with similar sketches"),
    ]  # fmt: skip
    if study.name.endswith((".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")):
        fields.insert(0, Field("text", "Column of texts", "choice", "", _columns(study)))
    return fields + _accepting(study, "sketch")


def _sketch(study: Study, form: Form) -> list[str]:
    model = form.get("model", "delta")
    number = "k" if model == "k-variance" else "delta"
    words = ["sketch", study.word, "-o", study.within(study.place / "sketches.parquet"), "--force"]
    words += ["--key-file", study.within(study.place / "owner.key")]
    words += ["--report", study.within(study.place / "sketch-report.html"), f"--model={model}"]
    return [*words, *_option(form, number), *_option(form, "text"), *_option(form, "accept_risk")]


def _sketch_files(study: Study) -> dict[str, tuple[Path, str]]:
    made = study.place / "sketches.parquet"
    return {
        "data": (made, "the sketches: the miner needs no key"),
        "manifest": (Path(f"{made}.manifest.json"), "how they were made"),
        "report": (study.place / "sketch-report.html", "owner's report"),
    }


# -- sites ------------------------------------------------------------------------------------


def _choices(study: Study, *ends: str) -> tuple[tuple[str, str], ...]:
    """Return files of the folder whose name ends so; without an end, the tables."""
    found = [f for f in files(study.root) if f.name.endswith(ends) or not ends]
    return tuple((f.id, f.name) for f in found if ends or is_table_name(f.name))


def _named(study: Study, identity: str, what: str) -> str:
    for found in files(study.root):
        if found.id == identity:
            return found.name
    raise DataError(f"choose {what}: a file of this folder")


def _stem(name: str) -> str:
    return name.partition(".")[0]


_AGREEMENT = ("-a", "sites.agreement", "--key-file", "sites.key")


def _summarise(study: Study, form: Form) -> list[str]:
    table = _named(study, form.get("table", ""), "your table")
    return ["sites", "summary", table, "-o", f"{_stem(table)}.summary.json", "--force"]


def _agree(study: Study, form: Form) -> list[str]:
    told = [_named(study, place, "the summaries") for place in checked(form, "summary")]
    if not told:
        raise ParameterError("choose the summaries of the sites, yours among them")
    return ["sites", "agree", *told, "-o", "sites.agreement", "--key-file", "sites.key", "--force"]


def _encode(study: Study, form: Form) -> list[str]:
    table = _named(study, form.get("table", ""), "your table")
    output = f"{_stem(table)}.codes.parquet"
    return ["sites", "encode", table, "-o", output, *_AGREEMENT, "--force"]


def _join(study: Study, form: Form) -> list[str]:
    codes = [_named(study, place, "the codes") for place in checked(form, "codes")]
    if len(codes) < 2:
        raise ParameterError("choose the codes of at least two sites")
    return ["sites", "join", *codes, "-o", "sites.union.parquet", "--force"]


def _decode(study: Study, form: Form) -> list[str]:
    result = _named(study, form.get("result", ""), "what the miner found")
    values = _named(study, form.get("values", ""), "your table")
    output = f"{_stem(result)}.plain{Path(result).suffix}"
    words = ["sites", "decode", result, "-o", output, *_AGREEMENT, "--values", values, "--force"]
    return [*words, "--keep-unknown", *_option(form, "kind")]


def _your_table(study: Study) -> list[Field]:
    return [Field("table", "Your table", "choice", options=_choices(study))]


def _decoding(study: Study) -> list[Field]:
    kinds = ("table", "rules", "centers", "json", "text")
    results = _choices(study, ".parquet", ".csv", ".json", ".txt")
    return [
        Field("result", "What the miner found", "choice", options=results),
        Field("kind", "It is", "choice", "table", tuple((k, k) for k in kinds),
              "text is the text of a decision tree"),
        Field("values", "Your table", "choice", options=_choices(study),
              meaning="its values are recognised; those from other sites stay aliases"),
    ]  # fmt: skip


def _ending(*ends: str) -> Callable[[Study], dict[str, tuple[Path, str]]]:
    def found(study: Study) -> dict[str, tuple[Path, str]]:
        there = [f for f in files(study.root) if f.name.endswith(ends)]
        return {f.id: (f.source, "in this folder") for f in there}

    return found


# -- linked tables, and questions to a release ---------------------------------------------------

_LINKED = "linked.policy.toml"
_DRAWN = ("linked", "together")  # steps after which the tables are drawn


def _reading(study: Study) -> list[Field]:
    there = (("keep", f"keep {_LINKED}"), ("replace", "replace it"))
    if not (study.place / _LINKED).is_file():
        return []
    return [Field("policy", "The existing policy", "choice", "keep", there)]


def _read_linked(study: Study, form: Form) -> list[str]:
    if (study.place / _LINKED).is_file() and form.get("policy") != "replace":
        raise ParameterError(f"{_LINKED} exists already: choose to replace it, or continue")
    study.place.mkdir(mode=0o700, exist_ok=True)  # nothing is written among the tables
    return ["inspect", ".", "-o", study.within(study.place / _LINKED), "--force"]


def linked_lines(study: Study) -> list[dict[str, Any]]:
    """Return a line for each column of linked tables, as the policy has it now."""
    if not (study.place / _LINKED).is_file():
        return []
    job = study.job("linked")
    known = {row["name"]: row for row in job.result().get("columns", [])}
    drawn = job.result(1).get("tables", {})
    sections = load_policy(study.place / _LINKED).tables
    there = [(table, column) for table, one in sections.items() for column in one.columns]
    return [
        {
            "place": place,
            "name": f"{table}.{column.name}",
            "column": column,
            "found": known.get(f"{table}.{column.name}", {}),
            "why": column.reason,
            "alone": None,
            "bars": drawn.get(table, {}).get("columns", {}).get(column.name, []),
        }
        for place, (table, column) in enumerate(there)
    ]


def set_linked_column(study: Study, place: int, kind: str | None, role: str | None) -> None:
    """Change kind or role of a column of linked tables in their policy."""
    path = study.place / _LINKED
    policy = load_policy(path)
    sections = dict(policy.tables)
    for table, section in sections.items():
        columns = list(section.columns)
        if 0 <= place < len(columns):
            columns[place] = changed_column(columns[place], kind, role)
            sections[table] = replace(section, columns=tuple(columns))
        place -= len(columns)
    made_for = study.root.name
    write_policy(replace(policy, tables=sections), path, made_for=made_for, force=True)


def _condensing(study: Study) -> list[Field]:
    return [Field("k", "Group size k", value="10", meaning="people in the smallest group"),
            *_accepting(study, "together")]  # fmt: skip


def _condense_linked(study: Study, form: Form) -> list[str]:
    if not (study.place / _LINKED).is_file():
        raise ParameterError("read the tables first, to find how they lead to people")
    words = ["condense", ".", "-o", study.within(study.place / "together")]
    words += ["--policy", study.within(study.place / _LINKED), "--force"]
    words += ["--report", study.within(study.place / "together.html")]
    return [*words, *_option(form, "k"), *_option(form, "accept_risk")]


def _together_files(study: Study) -> dict[str, tuple[Path, str]]:
    place = study.place / "together"
    tables = enumerate(sorted(place.glob("*")))
    return {
        **{f"table{number}": (path, "a released table") for number, path in tables},
        "manifest": (Path(f"{place}.manifest.json"), "what was verified: send it with them"),
        "report": (study.place / "together.html", "your report: keep it"),
    }


def _asking(study: Study) -> list[Field]:
    made = [(str(r.number), f"Release {r.number}") for r in study.releases() if r.data.is_file()]
    return [
        Field("release", "Of", "choice", made[-1][0] if made else "", tuple(made)),
        Field("question", "Question", value=study.answers.get("question", ""),
              meaning="such as mean(age) by ward, share(age < 30), quantile(cost, 0.9) or "
              "ols(cost ~ age), each with: where CONDITION"),
    ]  # fmt: skip


def _ask(study: Study, form: Form) -> list[str]:
    question = form.get("question", "")
    if not question or question.startswith("-") or not form.get("release", "").isdigit():
        raise ParameterError("choose a release and write a question, such as mean(age)")
    study.answer(question=question)
    return ["estimate", study.within(study.release(int(form["release"])).data), question]


_WORK: dict[str, tuple[Any, ...]] = {  # of each step: its fields, its command, what that leaves
    "linked": (_reading, _read_linked,
        lambda s: {"policy": (s.place / _LINKED, "people, keys and roles")}),
    "together": (_condensing, _condense_linked, _together_files),
    "estimate": (_asking, _ask, lambda s: {}),
    "mine": (_thresholds, _mine,
        lambda s: {"rules": (s.place / "rules.csv", "all rules, for your eyes only")}),
    "hide": (_rules_to_pick, _hide, _hidden_files),
    "sketch": (_sketching, _sketch, _sketch_files),
    "summary": (_your_table, _summarise, _ending(".summary.json")),
    "agree": (lambda s: [Field("summary", "Summaries", "checks",
                               options=_choices(s, ".summary.json"))],
        _agree, _ending(".agreement")),
    "encode": (_your_table, _encode, _ending(".codes.parquet")),
    "join": (lambda s: [Field("codes", "Codes", "checks", options=_choices(s, ".codes.parquet"))],
        _join, _ending(".union.parquet")),
    "decode": (_decoding, _decode,
        _ending(".plain.parquet", ".plain.csv", ".plain.json", ".plain.txt")),
}  # fmt: skip
STEPS = {step: Step(**_WORDS["steps"][step], **dict(zip(Step._fields[3:], work)))
         for step, work in _WORK.items()}  # fmt: skip
FLOWS = (
    {"linked": "Read", "together": "Release"},
    {"estimate": "Ask"},
    {"mine": "Mine", "hide": "Hide"},
    {"sketch": "Sketch"},
    {"summary": "Summary", "agree": "Agree", "encode": "Encode", "join": "Join",
     "decode": "Decode"},
    {"stream": "Stream"},
)  # fmt: skip


# -- streams ----------------------------------------------------------------------------------


def stream(study: Study) -> dict[str, Any]:
    """Return what the state of a stream says, whether or not it is running."""
    from tulle._commands.stream import status
    from tulle.stream.condenser import StreamCondenser

    found, history = status(study.source), StreamCondenser.load(study.source).history_
    return {
        "figures": [(name, found[name], meaning) for name, meaning in _WORDS["stream"].items()],
        "found": found,
        "columns": list(history[0]) if history else [],
        "history": [list(row.values()) for row in history],
        "strip": [
            ("file", study.name, "the state of a stream"),
            ("records", f"{found['seen']:,}", "seen so far"),
            ("k", str(found["k"]), "least records in a group, unless they have levels"),
        ],
        "steps": flow_of("stream"),
    }


def stream_chart(study: Study) -> tuple[str, list[dict[str, Any]]] | None:
    """Return the picture of a stream's history."""
    from tulle._json import plain
    from tulle.stream.condenser import StreamCondenser

    measures = {"groups": "groups", "waiting": "records that wait", "drift": "how far means moved"}
    rows = [
        {"curve": str(row.get("class", "all")), "seen": row["seen"], "measure": words,
         "value": row[name]}
        for row in StreamCondenser.load(study.source).history_
        for name, words in measures.items()
    ]  # fmt: skip
    return ("history", plain(rows)) if rows else None
