"""Do intervals of ``tulle estimate`` cover what the original says, and what do others give?

``TULLE_DATA=folder python -m benchmarks.bench_estimates [--quick] [--tables german] [--seeds 0,1]
[--estimates 200] [--rows 3000]``

For each table and seed one model is fitted and five copies are drawn from it, the error ledger is
measured on the release and two splits, and random questions that the ledger does not know are
asked: means, shares, totals, quantiles and regressions, by group and under conditions, with squares
and whole categories. ``--only`` names parts: coverage, cases, named, conditions,
weights.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.bench_frontier import ONE_THREAD
from benchmarks.bench_tabsyn import environment
from benchmarks.judged_tables import FROM_R, TWELVE, load, options, warm
from benchmarks.results import as_table, run_parts, write_table
from tulle import Condenser, ParameterError, TulleError, error_ledger, estimate
from tulle.estimating._questions import answer, parse_question
from tulle.estimating.estimate import _factor
from tulle.estimating.ledger import pooled

COPIES = 5
K = 10
MORE = {
    "ess10no": ("stevedata", "ESS10NO", None),
    "card": ("wooldridge", "card", None),
    "wage1": ("wooldridge", "wage1", None),
    "affairs": ("AER", "Affairs", None),
    "health": ("AER", "HealthInsurance", None),
    "doctors": ("AER", "DoctorVisits", None),
}
FROM_R.update(MORE)
TWENTY = (*TWELVE, "abalone", "pima", *MORE)
QUICK = ("german", "adult", "abalone", "pima")
LEFT_OUT = {"ess10no": ["idno", "name", "essround", "edition", "proddate", "inwds", "inwde"]}
KEPT = Path(tempfile.gettempdir()) / "tulle-estimates.json"  # a run that is stopped goes on


def table(name: str, rows: int) -> pl.DataFrame:
    """A table as polars sees it, without names of people and rows."""
    frame, _ = load(name, rows)
    frame = frame.drop(columns=[one for one in LEFT_OUT.get(name, []) if one in frame])
    return pl.from_pandas(frame)


def questions(frame: pl.DataFrame, rng: np.random.Generator) -> Iterator[str]:
    """Questions without end, at random."""
    numbers = [n for n in frame.columns if frame[n].dtype.is_numeric() and frame[n].n_unique() > 2]
    words = [n for n in frame.columns if frame[n].dtype == pl.String and frame[n].n_unique() <= 12]
    groups = words + [n for n in frame.columns if 2 <= frame[n].n_unique() <= 6 and n not in words]

    def one(names: list[str]) -> str:
        return f"`{rng.choice(names)}`"

    def condition() -> str:
        if words and rng.random() < 0.5:
            name = str(rng.choice(words))
            return f"`{name}` == '{rng.choice(frame[name].drop_nulls().to_numpy())}'"
        name = str(rng.choice(numbers))
        cut = frame[name].drop_nulls().quantile(float(rng.choice([0.3, 0.5, 0.7])))
        return f"`{name}` {rng.choice(['<=', '>'])} {cut:.10g}"

    def terms(but: str) -> str:
        pool = [n for n in numbers + words if f"`{n}`" not in but]
        some = rng.permutation(pool)[: int(rng.integers(1, min(7, len(pool) + 1)))].tolist()
        squares = [f"`{n}` ** 2" for n in some if n in numbers][:1]
        return " + ".join([f"`{n}`" for n in some] + squares * (rng.random() < 0.2))

    kinds = ["mean", "share", "total", "quantile", "ols", "logit"] if numbers else ["share"]
    while True:
        kind = str(rng.choice(kinds))
        if kind in ("mean", "total"):
            text = f"{kind}({one(numbers)})"
        elif kind == "share":
            text = f"share({condition()})"
        elif kind == "quantile":
            text = f"quantile({one(numbers)}, {rng.choice([0.05, 0.2, 0.5, 0.8, 0.95])})"
        else:
            about = one(numbers) if kind == "ols" else condition()
            text = f"{kind}({about} ~ {terms(about)})"
        if kind not in ("ols", "logit") and groups and rng.random() < 0.6:
            text += f" by {rng.choice(groups)}"
        if rng.random() < 0.25:
            text += f" where {condition()}"
        yield text


def asked(
    original: pl.DataFrame,
    copies: list[pl.DataFrame],
    ledger: dict[str, Any],
    wanted: int,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """The answers to ``wanted`` numbers: of the original, of one copy and of all, by each way."""
    rng, found = np.random.default_rng(900 + seed), 0
    for text in questions(original, rng):
        try:
            question = parse_question(text, copies[0])
        except ParameterError:
            continue
        truth, each = answer(question, original), [answer(question, copy) for copy in copies]
        together = {m: pooled(each[:m]) for m in (1, COPIES)}
        keys = [key for key in truth if all(key in one for one in together.values())]
        for place in rng.permutation(len(keys))[:4]:  # of one question not too many numbers
            true, row = truth[keys[place]], {"kind": question.kind, "text": text}
            known = [together[m][keys[place]] for m in (1, COPIES)]
            if true.records < 2 * K or not all(one.variance > 0 for one in known):
                continue
            for m, one in zip((1, COPIES), known):
                away, error = abs(one.value - true.value), one.variance**0.5
                factor = _factor(question, keys[place], one, ledger, m)[0]
                row[f"naive {m}"] = (away <= 1.96 * error, 1.0)
                row[f"draws {m}"] = (away <= 1.96 * error / m**0.5, m**-0.5)
                wider = (1 + 1 / m) ** 0.5
                row[f"synthpop {m}"] = (away <= 1.96 * error * wider, wider)
                row[f"ledger {m}"] = factor and (away <= factor * error, factor / 1.96)
            yield row
            found += 1
            if found == wanted:
                return


def condensed(original: pl.DataFrame, seed: int, k: int = K) -> Condenser:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # duplicates, small classes: known of these tables
        return Condenser(k=k, random_state=seed).fit(original)


def copies_of(original: pl.DataFrame, seed: int) -> list[pl.DataFrame]:
    fitted = condensed(original, seed)
    return [fitted.sample() for _ in range(COPIES)]


def coverage(quick: bool) -> None:
    chosen = options(QUICK if quick else TWENTY, (0, 1) if quick else range(10))
    wanted = 40 if quick else 200
    rows = chosen.rows or (1_500 if quick else 3_000)
    done = json.loads(KEPT.read_text()) if KEPT.exists() and not quick else {}
    warm()
    for seed, name in itertools.product(chosen.seeds, chosen.tables):
        if f"{name} {seed}" in done:
            continue
        original, start = table(name, rows), time.process_time()
        copies = copies_of(original, seed)
        fitted = time.process_time() - start
        ledger = error_ledger(
            original, copies, lambda part: copies_of(part, 77), k=K, splits=2, random_state=seed
        )
        spent = time.process_time() - start
        answers = list(asked(original, copies, ledger, wanted, seed))
        done[f"{name} {seed}"] = {
            "rows": original.height, "columns": original.width, "fit": fitted,
            "ledger": spent - fitted, "answers": answers,
        }  # fmt: skip
        print(
            name, seed, len(answers), f"{fitted:.1f} s, ledger {spent - fitted:.1f} s", flush=True
        )
        if not quick:
            KEPT.write_text(json.dumps(done))
    _report(done, quick)


WAYS = ("naive 1", f"draws {COPIES}", f"synthpop {COPIES}", "ledger 1", f"ledger {COPIES}")


def _report(done: dict[str, Any], quick: bool) -> None:
    by_table: dict[str, list[Any]] = defaultdict(list)
    by_kind: dict[str, list[Any]] = defaultdict(list)
    for name, found in done.items():
        for row in found["answers"]:
            for place in (by_table[name.split()[0]], by_table["all"], by_kind[row["kind"]]):
                place.append(row)
    head = ["estimates", *WAYS, "width 1", f"width {COPIES}", "not answered"]
    lines = [[name, *_line(rows)] for name, rows in by_table.items() if name != "all"]
    lines.append(["all", *_line(by_table["all"])])
    kinds = [[name, *_line(rows)] for name, rows in sorted(by_kind.items())]
    notes = (
        "Share of 95 % intervals that cover the original's own estimate. naive 1: one copy and its "
        f"own standard error. draws {COPIES}: the mean of {COPIES} copies and its own standard "
        f"error. synthpop {COPIES}: the mean of {COPIES} copies and the variance v (1 + 1/m), "
        "the combining rule for fully synthetic data drawn from one fitted model, meant for the "
        "population. ledger: `tulle estimate` with one copy and with all. Widths are medians of "
        "the ledger's intervals in those of the naive one; not answered is the share that the "
        f"release refuses. k = {K}, at most 3,000 rows of a table."
    )
    notes += "\n\n" + as_table(["kind", *head], kinds)
    write_table("estimates", "Intervals that cover the original", ["table", *head], lines,
                notes=notes, quick=quick)  # fmt: skip


def _line(rows: list[dict[str, Any]]) -> list[Any]:
    cells: list[Any] = [len(rows)]
    for way in WAYS:
        given = [row[way] for row in rows if row[way] is not None]
        cells.append(f"{np.mean([one[0] for one in given]):.3f}" if given else "-")
    for way in WAYS[-2:]:
        given = [row[way][1] for row in rows if row[way] is not None]
        cells.append(f"{np.median(given):.2f}" if given else "-")
    cells.append(f"{np.mean([row[WAYS[-1]] is None for row in rows]):.3f}")
    return cells


# -- cases B and C of the first users --------------------------------------------------------------

CASES = {  # the question, and which columns a table keeps; after ", " the weights
    "wagepan": (
        "ols(lwage ~ educ + exper + expersq + union + married + black)",
        ["lwage", "educ", "exper", "expersq", "union", "married", "black", "hisp", "year", "hours"],
    ),
    "ess10no": (
        "ols(imueclt ~ female + eduyrs + lrscale + agea)",
        ["imueclt", "imbgeco", "imwbcnt", "female", "eduyrs", "lrscale", "agea", "brnnorge",
         "region", "eu_vote", "uempla", "polint", "hinctnta"],
    ),
    "ess10no, anweight": (
        "ols(imueclt ~ female + eduyrs + lrscale + agea)",
        ["imueclt", "imbgeco", "imwbcnt", "female", "eduyrs", "lrscale", "agea", "brnnorge",
         "region", "eu_vote", "uempla", "polint", "hinctnta", "anweight"],
    ),
}  # fmt: skip
FROM_R["wagepan"] = ("wooldridge", "wagepan", None)


def cases(quick: bool) -> None:
    """Regressions that first users lost, asked with and without naming them beforehand."""
    lines = []
    for name, (question, wanted) in CASES.items():
        source, _, weight = name.partition(", ")
        original = table(source, 5_000)
        original = original.select([one for one in wanted if one in original.columns])
        rules = ["expersq = exper ** 2"] if name == "wagepan" else None
        roles = {weight: "weight"} if weight else {}
        copies = drawn(original, 0, rules, roles)
        answers = {}
        for label, named in (("ledger", []), ("named", [question])):
            ledger = error_ledger(
                original, copies, lambda part: drawn(part, 77, rules, roles),  # noqa: B023
                k=K, splits=2, questions=named, random_state=0, weight=weight or None,
            )  # fmt: skip
            answers[label] = estimate(copies, question, ledger=ledger, weight=weight)
        truth = estimate(original, question, weight=weight)
        for place, row in enumerate(truth.iter_rows(named=True)):
            told = [answers[label].row(place, named=True) for label in ("ledger", "named")]
            one = estimate(copies[0], question, weight=weight).row(place, named=True)
            lines.append(
                [
                    f"{name}: {row['term']}",
                    _interval(row["estimate"], 1.96 * row["standard_error"]),
                    _interval(one["estimate"], 1.96 * one["standard_error"]),
                    *(_told(found, row["estimate"]) for found in told),
                ]
            )
    write_table(
        "estimates_cases",
        "Effects that first users lost",
        [
            "coefficient",
            "original",
            "one copy, naive",
            "ledger, five copies",
            "named in the policy",
        ],
        lines,
        notes="95 % intervals; * covers the original's estimate. k = 10, wagepan without persons.",
        quick=quick,
    )


def _interval(value: float, half: float) -> str:
    return f"{value:.4f} [{value - half:.4f}, {value + half:.4f}]"


def _told(found: dict[str, Any], truth: float) -> str:
    if found["low"] is None:
        return "cannot be answered"
    inside = found["low"] <= truth <= found["high"]
    return f"[{found['low']:.4f}, {found['high']:.4f}]" + ("*" if inside else "")


def drawn(
    original: pl.DataFrame, seed: int, rules: list[str] | None, roles: dict[str, str]
) -> list[pl.DataFrame]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = Condenser(k=K, random_state=seed, rules=rules, columns=roles).fit(original)
    return [fitted.sample() for _ in range(COPIES)]


def named(quick: bool) -> None:
    """Intervals of questions that the owner named: 25 random ones of each table."""
    lines, every = [], []
    for name in (
        QUICK if quick else ("abalone", "german", "magic", "gss", "math", "ess10no", "pima")
    ):
        original = table(name, 2_000)
        copies = copies_of(original, 0)
        texts = [
            text
            for text in itertools.islice(questions(original, np.random.default_rng(900)), 40)
            if _reads(text, copies[0])
        ][:25]
        ledger = error_ledger(
            original, copies, lambda part: copies_of(part, 77), k=K, splits=2, questions=texts,
            random_state=0,
        )  # fmt: skip
        rows = []
        for text in texts:
            question = parse_question(text, copies[0])
            truth = answer(question, original)
            for key, one in pooled([answer(question, copy) for copy in copies]).items():
                own = _factor(question, key, one, ledger, COPIES)[0]
                usual = _factor(question, key, one, ledger | {"asked": {}}, COPIES)[0]
                if own is not None and usual is not None and key in truth:
                    error = abs(one.value - truth[key].value) / one.variance**0.5
                    rows.append((error <= own, error <= usual, own / usual))
        every += rows
        lines.append([name, len(rows), *_covered(rows)])
    lines.append(["all", len(every), *_covered(every)])
    write_table(
        "estimates_named",
        "Intervals of named questions",
        ["table", "numbers", "named", "not named", "width, not named = 1"],
        lines,
        notes=f"Share of 95 % intervals that cover the original's estimate, {COPIES} copies, "
        f"k = {K}, 25 random questions to each table (at most 2,000 rows), one seed; the same "
        "questions asked with a ledger that was told of them and as if it had not been. The "
        "numbers of one regression miss together.",
        seed=0,
        quick=quick,
    )


def _reads(text: str, release: pl.DataFrame) -> bool:
    try:
        return bool(parse_question(text, release))
    except ParameterError:
        return False


def _covered(rows: list[tuple[bool, bool, float]]) -> list[str]:
    own, usual, widths = zip(*rows)
    return [f"{np.mean(own):.3f}", f"{np.mean(usual):.3f}", f"{np.median(widths):.2f}"]


# -- conditions ------------------------------------------------------------------------------------


CONDITIONS = (
    "sex == 'Female'",
    "age < 30 and sex == 'Female'",
    "age > 70",
    "age > 70 and race == 'Black'",
    "age > 85 and race == 'Black'",
)
ASKED = 500  # records of each


def conditions(quick: bool) -> None:
    """Records that meet a condition: by ``where``, by drawing and throwing away, and by SDV."""
    original = table("adult", 3_000 if quick else 10_000)
    fitted = condensed(original, 0)
    lines, peers = [], by_sdv(original)
    for where in CONDITIONS:
        people = original.filter(pl.sql_expr(where.replace("==", "=")))
        lines.append([where, "the people", people.height, "", "", *_means(people, 2 * K)])
        start = time.process_time()
        try:
            made, way = fitted.sample(ASKED, where=where), "`where`"
        except TulleError as error:
            made, way = people.clear(), f"`where`: refused ({type(error).__name__})"
        lines.append([where, way, *_drawn(made, where, time.process_time() - start)])
        if made.height:
            start, by_hand = time.process_time(), made.clear()
            while by_hand.height < ASKED:
                more = fitted.sample(1_000).filter(pl.sql_expr(where.replace("==", "=")))
                by_hand = pl.concat([by_hand, more])
            spent = time.process_time() - start
            way = "Tulle, drawn and thrown away"
            lines.append([where, way, *_drawn(by_hand.head(ASKED), where, spent)])
        for one in peers:
            if one.get("condition") == where:
                cells = [one["records"], f"{one['holds']:.0%}", f"{one['seconds']:.2f}"]
                cells += [f"{one['hours-per-week']:.2f}", f"{one['women']:.3f}"]
                lines.append([where, f"SDV copula, {one['way']}", *cells])
    write_table(
        "estimates_conditions",
        "Records that meet a condition",
        ["condition", "way", "records", "meet it", "CPU s", "mean hours a week", "share of women"],
        lines,
        notes=f"Adult, 10,000 people, k = 10, {ASKED} records each. Drawn and thrown away: 1,000 "
        "records at a time, of which those that meet the condition are kept. SDV 2.0's Gaussian "
        "copula can be asked for values that columns must have (`sample_from_conditions`); other "
        "conditions its users meet by throwing away, here for 60 CPU seconds at most. `where` is "
        "refused if fewer than k people and a margin, as the model counts them, are behind it.",
        packages=("numpy", "numba", "polars"),
        quick=quick,
    )


def _means(made: pl.DataFrame, least: int = 1) -> list[str]:
    if made.height < least:
        return ["", ""]
    return [f"{made['hours-per-week'].mean():.2f}", f"{made['sex'].eq('Female').mean():.3f}"]


def _drawn(made: pl.DataFrame, where: str, seconds: float) -> list[Any]:
    meets = made.filter(pl.sql_expr(where.replace("==", "="))).height
    share = f"{meets / made.height:.0%}" if made.height else ""
    return [made.height, share, f"{seconds:.2f}", *_means(made)]


def by_sdv(original: pl.DataFrame) -> list[dict[str, Any]]:
    """What SDV draws, in its own environment; kept in ``TULLE_PEERS``, and not drawn again."""
    folder = Path(os.environ.get("TULLE_PEERS", os.path.join(tempfile.gettempdir(), "tulle-peers")))
    result, python = folder / "conditions.json", environment("sdv")
    if python is not None and not result.exists():
        original.write_csv(folder / "conditions.csv")
        script = Path(__file__).with_name("conditions_peer.py")
        command = [python, script, folder / "conditions.csv", result, str(ASKED), *CONDITIONS]
        subprocess.run(command, check=True, env=ONE_THREAD)
    return json.loads(result.read_text()) if result.exists() else []


# -- survey weights --------------------------------------------------------------------------------

WEIGHTED = {"ess10no": "anweight", "adult": "fnlwgt", "card": "weight"}


def weights(quick: bool) -> None:
    """Weighted totals and means of releases: weights drawn only, and calibrated."""
    lines = []
    for name, weight in WEIGHTED.items():
        original = table(name, 1_500 if quick else 5_000)
        others = [one for one in original.columns if "weight" in one or "wght" in one]
        original = original.drop(one for one in others if one != weight)
        for way, columns in (("drawn", {}), ("calibrated", {weight: "weight"})):
            figures = []
            for seed in range(2 if quick else 5):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fitted = Condenser(k=K, columns=columns, random_state=seed).fit(original)
                figures.append(_weighted_errors(original, fitted.sample(), weight))
            total, shares, means = np.mean(figures, axis=0)
            cells = [f"{total:.2%}", f"{shares:.2%}", f"{means:.2f}"]
            lines.append([name, weight, way, original.height, *cells])
    write_table(
        "estimates_weights",
        "Weighted totals and means",
        ["table", "weight", "way", "records", "sum of weights", "totals by value", "means, s.e."],
        lines,
        notes="How far a release is from the original, the mean of five seeds: the sum of all "
        "weights, the largest difference of a value's share of all weights (values of at least "
        f"{2 * K} people), and the largest difference of a number's weighted mean in its own "
        "standard errors.",
        quick=quick,
    )


def _weighted_errors(original: pl.DataFrame, release: pl.DataFrame, weight: str) -> list[float]:
    sums = [float(one[weight].sum()) for one in (original, release)]
    shares, means = [0.0], [0.0]
    for name in (one for one in original.columns if one != weight):
        if original[name].n_unique() <= 60:
            each = [
                dict(one.group_by(name).agg(pl.col(weight).sum() / one[weight].sum()).iter_rows())
                for one in (original, release)
            ]
            for value, count in original[name].value_counts().iter_rows():
                if count >= 2 * K and value is not None:
                    shares.append(abs(each[0][value] - each[1].get(value, 0.0)))
        elif original[name].dtype.is_numeric():
            text = f"mean(`{name}`)"
            true, found = (
                estimate(one, text, weight=weight).row(0, named=True) for one in (original, release)
            )
            means.append(abs(true["estimate"] - found["estimate"]) / true["standard_error"])
    return [abs(sums[1] / sums[0] - 1), max(shares), max(means)]


PARTS = {
    "coverage": coverage,
    "cases": cases,
    "named": named,
    "conditions": conditions,
    "weights": weights,
}


def main(quick: bool = False) -> None:
    run_parts(PARTS)


if __name__ == "__main__":
    main()
