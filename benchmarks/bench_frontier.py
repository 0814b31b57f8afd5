"""Risk against utility: Tulle at several k next to its peers, judged by tools that are not ours.

``TULLE_DATA=folder python -m benchmarks.bench_frontier [--quick] [--only adult,german]``

Every peer and the judge run in environments of their own, which this benchmark makes with uv
under ``TULLE_PEERS`` (default: ``tulle-peers`` in the folder for temporary files). Releases and
judgements are kept there, so that an interrupted run goes on where it stopped. A peer that cannot
be installed, fails or takes more than ``TULLE_PATIENCE`` CPU seconds (default: 240) is listed as
such. ``TULLE_NIST_SCORE`` names a program that scores releases of national2019 as NIST does.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import polars as pl

from benchmarks.frontier_peers import ENVIRONMENTS
from benchmarks.results import data_folder, peak_of, save_chart, write_table

HERE = Path(__file__).parent
UV = Path(sys.executable).with_name("uv")  # as the Makefile installs it
PATIENCE = int(os.environ.get("TULLE_PATIENCE", "240"))  # CPU seconds of a peer
SIZES = (3, 5, 10, 20, 50)
SUBSAMPLES = (1, 5, 10, 40)
FEWEST = 50  # records that the judge can say something about
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}  # spins less
SEEDS = (0, 1, 2)  # of the releases at k = 20, on which the targets are


class Table(NamedTuple):
    """Members, strangers, the target column, and the column within which marginals are taken."""

    name: str
    members: pl.DataFrame
    strangers: pl.DataFrame
    target: str | None
    within: str | None = None


def tables(quick: bool) -> Iterator[Table]:
    """Yield the tables; members and strangers are drawn from the same people."""
    folder = data_folder()

    def halves(name: str, members: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        table = read(folder / "tables" / f"{name}.csv.gz").sample(fraction=1, shuffle=True, seed=0)
        return table[:members], table[members:]

    yield Table("german", *halves("german_symbolic", 600), "class")
    if quick:
        return
    yield Table("magic", *halves("magic", 10_000), "class")
    adult = [read(folder / "tables" / f"adult_{part}.csv.gz") for part in ("train", "test")]
    yield Table("adult", *adult, "class")
    nist = [read(folder / "nist" / f"national{year}.csv.gz") for year in (2019, 2018)]
    yield Table("national2019", *nist, None, "PUMA")


def read(path: Path) -> pl.DataFrame:
    return pl.read_csv(path, infer_schema_length=None)


# -- releases ------------------------------------------------------------------------------------


def tulle(table: Table, k: int, seed: int, *more: str) -> pl.DataFrame:
    """Return what ``tulle condense`` makes of the members: by class where there is a target."""
    with tempfile.TemporaryDirectory() as folder:
        source, release = Path(folder) / "members.csv", Path(folder) / "release.csv"
        table.members.write_csv(source)
        command = ["condense", source, "-o", release, "-k", k, "--seed", seed, "--no-audit", *more]
        if table.target:
            command += ["--target", table.target]
        command = [sys.executable, "-m", "tulle", *map(str, command)]
        subprocess.run(command, check=True, capture_output=True, env=ONE_THREAD)
        return read(release)


def ours(table: Table) -> Iterator[tuple[str, Callable[[], pl.DataFrame]]]:
    for k in SIZES:
        for seed in SEEDS if k == 20 else SEEDS[:1]:
            name = f"Tulle k={k}" + (f" seed {seed}" if seed else "")
            yield name, lambda k=k, seed=seed: tulle(table, k, seed)
    yield "Tulle k=20, exact totals", lambda: tulle(table, 20, 0, "--exact-totals")
    yield "Tulle k=20, papers' draws", lambda: tulle(table, 20, 0, "--synthesis", "uniform")
    for share in SUBSAMPLES:
        if share * table.members.height < 100 * FEWEST:
            continue
        yield (
            f"subsample {share} %",
            lambda share=share: table.members.sample(fraction=share / 100, seed=0),
        )
    yield "strangers", lambda: table.strangers
    yield "members themselves", lambda: table.members


class Kitchen:
    """The folder of environments, releases and judgements of this benchmark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def python(self, name: str) -> Path | None:
        """Return the interpreter of an environment, made if need be; None if it cannot be."""
        place = self.folder / name
        if not (place / "bin" / "python").exists():
            run = subprocess.run([UV, "venv", "-q", "--python", sys.executable, place])
            wanted = ENVIRONMENTS[name][0]
            command = [UV, "pip", "install", "-q", "--python", place / "bin" / "python", *wanted]
            run = subprocess.run(command)
            if run.returncode:
                return None
        return place / "bin" / "python"

    def table(self, table: Table) -> Path:
        place = self.folder / "work" / table.name
        place.mkdir(parents=True, exist_ok=True)
        for name, frame in (("members", table.members), ("strangers", table.strangers)):
            if not (place / f"{name}.csv").exists():
                frame.write_csv(place / f"{name}.csv")
        return place

    def make(self, table: Table, name: str, work: Callable[[], pl.DataFrame]) -> str | None:
        """Make a release of our own; None if it is there, else why not."""
        place = self.table(table) / f"{name}.csv"
        if place.exists():
            return None
        start = _cpu()
        made = work()
        self._cost(place, _cpu() - start)
        made.write_csv(place)
        return None

    def ask(self, table: Table, peer: str, environment: str) -> str | None:
        """Let a peer make a release; None if it is there, else why not."""
        place = self.table(table) / f"{peer}.csv"
        failed = place.with_suffix(".failed")
        if place.exists():
            return None
        if failed.exists():
            return failed.read_text()
        python = self.python(environment)
        if python is None:
            return "cannot be installed"
        command = [python, HERE / "frontier_peers.py", peer, place.with_name("members.csv"), place]
        if table.target:
            command += ["--target", table.target]
        code, error, seconds, peak = watched(command)
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            failed.write_text(f"not done after {PATIENCE} CPU s")
            return failed.read_text()
        if code:
            reason = error.strip().splitlines() or ["no message"]
            failed.write_text("failed: " + reason[-1].split(":")[0][:60])
            return failed.read_text()
        self._cost(place, seconds, peak)
        return None

    def judge(self, table: Table, name: str, attacks: int) -> dict[str, Any]:
        """Return the judgement of a release, from the file of an earlier run if there is one."""
        place = self.table(table)
        result = place / f"{name}.json"
        if not result.exists():
            files = [place / f"{part}.csv" for part in ("members", name, "strangers")]
            command = [self.python("judge"), HERE / "frontier_judge.py", *files, result]
            command += ["--attacks", str(attacks)]
            if table.target:
                command += ["--target", table.target]
            if table.within:
                command += ["--within", table.within]
            subprocess.run(command, check=True, env=ONE_THREAD)
        costs = result.with_suffix(".cost")
        spent = costs.read_text().split() if costs.exists() else []
        found = json.loads(result.read_text())
        found |= dict(zip(("CPU s", "peak MB"), map(float, spent)))
        columns = table.members.width - len(found["columns left out"])
        return {"method": name, "columns": columns, **found}

    @staticmethod
    def _cost(place: Path, seconds: float, peak: float | None = None) -> None:
        memory = "" if peak is None else f" {peak:.0f}"
        place.with_suffix(".cost").write_text(f"{seconds:.2f}{memory}")


def watched(command: list[Any]) -> tuple[int, str, float, float]:
    """Run a command on one thread: how it ended, what it said, its CPU seconds and peak in MB."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.DEVNULL,
            stderr=said,
            env=ONE_THREAD,
            preexec_fn=_patience,
        )
        peak, ended = 0.0, 0
        while not ended:
            peak = max(peak, peak_of(process.pid))
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            time.sleep(0 if ended else 0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        return process.returncode, said.read(), used.ru_utime + used.ru_stime, peak


def _patience() -> None:
    """Limit the CPU time of a process: how long it takes depends on what else runs."""
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE + 5))


def _cpu() -> float:
    """Return the CPU seconds of the commands that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def nist_peers(table: Table, kitchen: Kitchen) -> Iterator[str]:
    """Copy the releases that other teams sent to NIST into the working folder."""
    for path in sorted((data_folder() / "nist" / "peers").glob("*.csv.gz")):
        name = f"NIST: {path.name.removesuffix('.csv.gz')}"
        place = kitchen.table(table) / f"{name}.csv"
        if not place.exists():
            read(path).write_csv(place)
        yield name


# -- table and picture -----------------------------------------------------------------------------

_NO_RELEASES = ("members themselves", *(f"subsample {share} %" for share in SUBSAMPLES[:3]))
_TRAINED = "train on release"
COLUMNS = (
    "method",
    "columns",
    "AUC against strangers",
    "pMSE",
    "TV3",
    "k-marginal",
    "train on release",
    "broken dependencies",
    "membership",
    "membership of outliers",
    "membership by exact values",
    "caught at 1 % false alarms",
    "unique matches",
    "singling out",
    "linkability",
    "inference",
    "SDMetrics shapes",
    "SDMetrics pairs",
    "CPU s",
)


def measure(table: Table, kitchen: Kitchen, quick: bool) -> tuple[list[dict[str, Any]], list[str]]:
    attacks = 100
    names, failures = [], []
    for name, work in ours(table):
        kitchen.make(table, name, work)
        names.append(name)
    if table.name == "national2019":
        names += nist_peers(table, kitchen)
    sent = table.name == "national2019"  # by their own teams
    for environment, (_, peers) in ENVIRONMENTS.items():
        for peer in peers if environment == "judge" or not (quick or sent) else ():
            if sent and peer.startswith("MDAV"):  # a quarter of an hour on 24 such columns
                continue
            problem = kitchen.ask(table, peer, environment)
            if problem:
                failures.append(f"{peer}: {problem}")
            else:
                names.append(peer)
    return [kitchen.judge(table, name, attacks) for name in names], failures


def mean_of_seeds(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of the releases at k = 20, each of its own seed."""
    seeds = [row for row in found if row["method"].split(" seed")[0] == "Tulle k=20"]
    mean = {"method": f"Tulle k=20, mean of {len(seeds)}"}
    for column in COLUMNS[1:]:
        values = [row.get(column) for row in seeds]
        if all(isinstance(value, int | float) for value in values):
            mean[column] = sum(values) / len(values)
    return mean


def write(table: Table, found: list[dict[str, Any]], failures: list[str], quick: bool) -> None:
    shown = [row for row in found if " seed " not in row["method"]]
    shown.insert(len(SIZES), mean_of_seeds(found))
    used = [c for c in COLUMNS if any(row.get(c) is not None for row in shown)]
    rows = [[shorten(row.get(column)) for column in used] for row in shown]
    gone = f" Not in the table: {'; '.join(failures)}." if failures else ""
    write_table(
        f"frontier_{table.name}",
        f"{table.name}: releases of {table.members.height:,} records, risk and utility",
        used,
        rows,
        notes="AUC of a classifier that tells released rows from strangers (0.5: it cannot); TV3: "
        "total variation over 100 triples of columns; train on release: ROC AUC on strangers. "
        "Membership: AUC of the best of ten distance attacks (0.5: guessing); singling out, "
        "linkability and inference: anonymeter's risk over the control. Strangers and subsamples "
        "give the scale. Each release by its method's defaults, seed 0." + gone,
        packages=("numpy", "scikit-learn", "polars"),
        seed=0,
        quick=quick,
    )
    save_chart(f"frontier_{table.name}", frontier_chart(table, shown), quick=quick)


def write_nist(table: Table, kitchen: Kitchen, found: list[dict[str, Any]], quick: bool) -> None:
    """Write what NIST's own measures say of the releases, by the program that is named."""
    names = [row["method"] for row in found if row["method"] not in ("strangers", *_NO_RELEASES)]
    files = [kitchen.table(table) / f"{name}.csv" for name in names]
    nist = data_folder() / "nist"
    command = [kitchen.python("judge"), os.environ["TULLE_NIST_SCORE"], "--target"]
    command += [nist / "national2019.csv.gz", "--control", nist / "national2018.csv.gz", *files]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=ONE_THREAD)
    scored = [json.loads(line) for line in run.stdout.splitlines()]
    measures = ("features", "k_marginal", "pmse", "auc", "unique_matches", "unique_matches_control")
    write_table(
        "frontier_nist_score",
        "national2019 by the measures of NIST's benchmark",
        ["method", *(name.replace("_", " ") for name in measures), "most broken rule"],
        [
            [name, *(shorten(score.get(m)) for m in measures), max(score["broken"].values())]
            for name, score in zip(names, scored)
        ],
        notes="k-marginal of 1000; pMSE and AUC of a classifier that tells the release from the "
        "original; unique matches in per cent, broken rules as a share. No policy was written "
        "for Tulle's releases; three seeds at k = 20. Releases named NIST are those that other "
        "teams sent to NIST; some have fewer of the 24 columns.",
        seed=0,
        quick=quick,
    )


def shorten(value: Any) -> Any:
    if value is None:
        return "-"
    return round(value, 4) if isinstance(value, float) else value


def frontier_chart(table: Table, found: list[dict[str, Any]]) -> alt.Chart:
    """Draw membership against two measures of utility: Tulle's curve, each peer a point."""
    utility = ("k-marginal",) if table.target is None else ("TV3", _TRAINED)
    frame = pl.DataFrame(
        [
            {
                "method": row["method"],
                "family": family(row["method"]),
                "k": group_size(row["method"]),
                "risk": max(row["membership"], row["membership by exact values"]),
                **{name: row[name] for name in utility},
            }
            for row in found
            if row["method"] != "members themselves" and "mean of" not in row["method"]
        ]
    )
    colours = alt.Color(
        "family:N",
        scale=alt.Scale(domain=["Tulle", "peer", "scale"], range=["#e8871e", "#4c78a8", "#9a9a9a"]),
        legend=alt.Legend(title=None, orient="top"),
    )
    charts = []
    for name in utility:
        best_first = alt.Scale(zero=False, reverse=name == "TV3")
        # a model trained on the strangers has seen whom it is tried on
        rows = [r for r in frame.to_dicts() if (name, r["method"]) != (_TRAINED, "strangers")]
        base = alt.Chart(alt.Data(values=rows)).encode(
            x=alt.X(
                "risk:Q", title="risk: best membership attack (AUC)", scale=alt.Scale(zero=False)
            ),
            y=alt.Y(f"{name}:Q", title=f"utility: {name}", scale=best_first),
        )
        curve = (
            base.transform_filter("datum.family == 'Tulle' && indexof(datum.method, ',') < 0")
            .mark_line(color="#e8871e")
            .encode(order="k:Q")
        )
        points = base.mark_point(filled=True, size=60).encode(color=colours)
        labels = base.mark_text(align="left", dx=6, fontSize=9).encode(text="method:N")
        charts.append((curve + points + labels).properties(width=520, height=380))
    title = f"{table.name}: risk against utility (upper left is best)"
    return alt.hconcat(*charts).properties(title=title)


def family(method: str) -> str:
    if method.startswith("Tulle"):
        return "Tulle"
    return "scale" if method.startswith(("subsample", "strangers")) else "peer"


def group_size(method: str) -> int:
    """Return the k of a release of ours: the curve goes along it."""
    return int(method.partition("=")[2].partition(",")[0]) if method.startswith("Tulle") else 0


def main(quick: bool = False, only: tuple[str, ...] = ()) -> None:
    folder = os.environ.get("TULLE_PEERS", os.path.join(tempfile.gettempdir(), "tulle-peers"))
    kitchen = Kitchen(Path(folder))
    for table in tables(quick):
        if not only or table.name in only:
            found, failures = measure(table, kitchen, quick)
            write(table, found, failures, quick)
            if table.name == "national2019" and "TULLE_NIST_SCORE" in os.environ:
                write_nist(table, kitchen, found, quick)


if __name__ == "__main__":
    chosen = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    main("--quick" in sys.argv, tuple(filter(None, chosen.split(","))))
