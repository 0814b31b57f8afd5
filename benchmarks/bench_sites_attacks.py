"""What the codes of Adult give away, to an attacker who knows other people's data."""

from __future__ import annotations

import argparse
from typing import Any

import altair as alt
import polars as pl

from benchmarks.results import data_folder, save_chart, write_table
from tulle import SecretKey, SiteAgreement, SiteCodec, SiteSummary, read_table
from tulle._attacks.result import AttackResult
from tulle._attacks.sites import attack_tables, warnings_of

SEED = 0
KEY = SecretKey(bytes(range(32)))  # fixed, so that the table repeats
ALIASED = [
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex",
    "native-country",
]  # fmt: skip
GRADED = ["age", "fnlwgt", "hours-per-week"]


def attacked(table: pl.DataFrame, public: pl.DataFrame, **choices: Any) -> dict[str, AttackResult]:
    """Every attack on every column, by somebody who holds the public table."""
    summaries = [SiteSummary.of(table)]
    agreement = SiteAgreement.from_summaries(summaries, key=KEY, **choices)
    encoded = SiteCodec(agreement, random_state=SEED).transform(table)
    splits = choices.get("split")
    found = attack_tables(table, encoded, public, splits=splits, random_state=SEED)
    return {result.name: result for result in found}


def main(quick: bool = False) -> None:
    folder = data_folder() / "tables"
    table = read_table(folder / "adult_train.csv.gz").select(*GRADED, *ALIASED)
    public = read_table(folder / "adult_test.csv.gz").select(*GRADED, *ALIASED)
    if quick:
        table, public = table.head(3000), public.head(3000)
    equal = attacked(table, public, groups=8)
    frequencies(table, public, equal, quick)
    pairs(table, public, equal, quick)
    print("\n".join(warnings_of(equal.values())))


def frequencies(
    table: pl.DataFrame, public: pl.DataFrame, plain: dict[str, AttackResult], quick: bool
) -> None:
    """Aliases: each value one alias, frequent values split."""
    split = attacked(table, public, split=dict.fromkeys(ALIASED, 0.02))
    rows = []
    for column in ALIASED:
        before = plain[f"frequency_matching:{column}"]
        after = split[f"frequency_matching:{column}"]
        rows.append([column, table[column].n_unique(), before.baseline, before.rate, after.rate])
    write_table(
        "sites_frequency_attack",
        "Frequency matching of Adult's aliases with the frequencies of other people",
        ["column", "categories", "guessing", "recovered", "recovered, split at 2 %"],
        rows,
        notes="Share of the records of the training file whose value an attacker names rightly, "
        "who holds the test file. Splitting frequent values into aliases of about 2 % each "
        "(the attacker knows the rule) hides some of it, and changes what miners find.",
        packages=("numpy", "scipy", "polars"),
        seed=SEED,
        quick=quick,
    )


def pairs(
    table: pl.DataFrame, public: pl.DataFrame, equal: dict[str, AttackResult], quick: bool
) -> None:
    """Graded codes: m known pairs, and the order of a public sample."""
    uneven = attacked(table, public, groups=8, cuts="uneven")
    attacks = ["1_known_pair", "2_known_pairs", "5_known_pairs", "10_known_pairs", "order_matching"]
    rows, points = [], []
    for column in GRADED:
        for attack in attacks:
            before, after = equal[f"{attack}:{column}"], uneven[f"{attack}:{column}"]
            named = attack.replace("_", " ")
            rows.append([column, named, before.baseline, before.rate, after.rate])
            for cuts, result in (("equal cuts", before), ("uneven cuts", after)):
                points.append(
                    {"column": column, "attack": named, "cuts": cuts, "recovered": result.rate,
                     "low": result.low, "high": result.high, "guessing": result.baseline}
                )  # fmt: skip
    write_table(
        "sites_known_pairs_attack",
        "Recovery of Adult's graded values (within 1 % of the range)",
        ["column", "attacker knows", "guessing", "recovered, equal cuts", "recovered, uneven cuts"],
        rows,
        notes="Known pairs: the values of so many of the people, and the range of the public "
        "file, drawn again for each attempt. Order matching: the public file.",
        packages=("numpy", "scipy", "polars"),
        seed=SEED,
        quick=quick,
    )
    save_chart("sites_known_pairs_attack", _chart(points), quick=quick)


def _chart(points: list[dict[str, object]]) -> alt.Chart:
    base = alt.Chart(alt.Data(values=points)).encode(
        x=alt.X("attack:N", sort=None, title=None),
        xOffset=alt.XOffset("cuts:N", sort=["equal cuts", "uneven cuts"]),
    )
    bars = base.mark_bar().encode(
        y=alt.Y("recovered:Q", axis=alt.Axis(format="%"), title="values recovered"),
        color=alt.Color("cuts:N", title=None),
    )
    guess = base.mark_tick(color="black", thickness=2).encode(y="guessing:Q")
    chart: alt.Chart = (
        alt.layer(bars, guess)
        .properties(width=260, height=180)
        .facet(column=alt.Column("column:N", title=None, sort=GRADED))
        .properties(title="What known people tell about the others (black: guessing)")
    )
    return chart


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
