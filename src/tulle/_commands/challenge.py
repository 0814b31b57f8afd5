"""``tulle challenge``: a table in, what attackers trained on releases of it achieve, by their time.

Each round condenses half of the people, drawn at random, and keeps the traces of some targets in
that release. The folder's file of rounds is what a run that was stopped goes on from: seeds, CPU
seconds and traces by the number of the target. It holds no record and no value, but it tells about
people: it is for the owner, like everything else in the folder.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle import _report as report
from tulle._attacks.membership import area_under_curve, traces
from tulle._attacks.records import nearest, spacing
from tulle._attacks.result import AttackResult
from tulle._attacks.shadows import Achieved, challenge_result, steps
from tulle._commands._columns import plan_columns, without_opaque
from tulle._commands._condensing import Condensing, group_size, make_release
from tulle._commands._memory import look_at
from tulle._commands._options import resolve
from tulle._commands._sources import check_files
from tulle._files import atomic_write
from tulle._json import plain
from tulle._plurals import counted
from tulle._progress import bar
from tulle._report.model import Result, Section, chart, table
from tulle._types import FilePath, Flags, Floats, Ints
from tulle.auditing._tables import align, align_made, without_names
from tulle.errors import DataError, ParameterError, PrivacyWarning
from tulle.io._formats import display_name, format_of
from tulle.table.schema import Column, Role
from tulle.table.split import units_of

STATE, PAGE, FIGURES = "rounds.jsonl", "challenge.html", "challenge.json"
_FORMAT = 1  # of the state
_MOST_PEOPLE = 20_000  # who are drawn from; so memory is bounded
_MOST_ROUNDS = 4_000  # more would teach little, and take more memory
_TARGETS = 100  # half of them outliers
_LOOKED_AT = 4_000  # people among whom outliers are looked for
_CROWD = 50  # nearest records that are counted by their distance
LEAST = 4  # rounds from which attackers can learn
_PRIVATE = 0o600


class Challenged(NamedTuple):
    """The curve, the outcome in people, and what it comes to."""

    steps: list[Achieved]
    attack: AttackResult
    summary: dict[str, Any]
    said: str  # in a sentence
    stopped: bool = False  # by hand, before its time


def challenge(
    source: FilePath,
    output: FilePath,
    *,
    seconds: float,
    policy: FilePath | None = None,
    target: str | None = None,
    seed: int | None = None,
    command: str = "",
    rounds: int | None = None,
    **given: Any,
) -> Challenged:
    """Make and attack releases for so many seconds, and write the curve into a folder.

    The options are those of ``tulle condense``, from ``given`` or the policy. A run that was
    stopped goes on where it was, and one that is stopped by hand shows what it has; ``rounds``
    ends one early.
    """
    format_of(source)
    check_files({"INPUT": source, "--policy": policy}, folders=("INPUT",), force=True)
    options = resolve("condense", Condensing(), policy, given)
    looked = look_at(source, 0)  # the same rows when it goes on
    columns = plan_columns(looked.table, options, target=target)
    table, columns = without_opaque(looked.table, columns)
    state = _State.opened(Path(output), table, columns, options, seed)
    arena = _Arena.of(table, columns, replace(options, small_classes="pool"), state.seed)
    end = time.monotonic() + seconds
    stopped = False
    try:
        with bar("rounds", seconds) as advance:
            start = time.monotonic()
            while len(state.seen) < (rounds or _MOST_ROUNDS) and time.monotonic() < end:
                state.keep(*arena.round(len(state.seen)))
                now = time.monotonic()
                advance(now - start, note=f"{len(state.seen)} releases")
                start = now
    except KeyboardInterrupt:
        if len(state.seen) < LEAST:
            raise  # there is nothing to show
        stopped = True
    found = _judged(arena, state)._replace(stopped=stopped)
    _write(Path(output), found, display_name(source), command, looked.notes)
    return found


# The people, and what a round does with them.


@dataclass(frozen=True)
class _Arena:
    """The people who are released or not, and the targets, outliers first."""

    table: pl.DataFrame
    columns: list[Column]
    options: Condensing
    seed: int
    units: Ints  # the person of each row
    targets: Ints  # rows, one of each person

    @classmethod
    def of(
        cls, table: pl.DataFrame, columns: list[Column], options: Condensing, seed: int
    ) -> _Arena:
        rng = np.random.default_rng([seed, 0])
        person = next((c.name for c in columns if c.role is Role.PERSON), None)
        _, units = np.unique(units_of(table, person), return_inverse=True)
        people = int(units.max(initial=-1)) + 1
        if people > _MOST_PEOPLE:
            rows = np.isin(units, rng.choice(people, _MOST_PEOPLE, replace=False))
            table, (_, units) = table.filter(rows), np.unique(units[rows], return_inverse=True)
            people = _MOST_PEOPLE
        least = 4 * (group_size(options) if options.k or options.min_group else 10)
        if people < least:
            raise DataError(
                f"a challenge releases half of the people, and needs at least {least} of them for "
                f"this k: there are {people}. Lower {options.word('k')}"
            )
        targets = _targets(table, columns, units, rng)
        return cls(table, columns, options, seed, units, targets)

    def drawn(self, number: int) -> tuple[int, Flags]:
        """Return the seed of a round, and which rows are released in it."""
        rng = np.random.default_rng([self.seed, 1, number])
        people = rng.permutation(self.units.max() + 1)
        return int(rng.integers(2**31)), np.isin(self.units, people[: len(people) // 2])

    def round(self, number: int) -> tuple[float, Floats]:
        """Make a release, and return the CPU seconds and what it shows of the targets."""
        seed, inside = self.drawn(number)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # said of the release itself
            rules, options = self.options.policy.rules, replace(self.options, seed=seed)
            release = make_release(self.table.filter(inside), self.columns, rules, options)[1]
        tables = align_made(self.table, release, None, self.columns)
        away = ~inside & ~np.isin(self.units, self.units[self.targets])
        asked = tables.original.take(self.targets)
        reference = replace(tables.original.take(np.flatnonzero(away)), people=None)
        rng = np.random.default_rng([self.seed, 2])  # the same columns are looked at each time
        found = traces(replace(asked, people=None), tables.release, reference, rng)
        near = nearest(asked, tables.release, _CROWD).distances
        found["crowd"] = np.log(np.exp(-near).sum(axis=1) + 1e-9)
        shown = np.column_stack(list(found.values()))
        return round(time.process_time() - start, 3), np.round(shown, 4)


def _targets(table: pl.DataFrame, columns: list[Column], units: Ints, rng: Any) -> Ints:
    """Return one row of each target: those farthest from others, then some of everybody."""
    records = align(table, without_names(table, columns), None, columns).original
    _, first = np.unique(units, return_index=True)
    looked = first[np.sort(rng.permutation(len(first))[:_LOOKED_AT])]
    order = looked[np.argsort(-spacing(looked, records), kind="stable")]
    half = min(_TARGETS, len(first) // 4) // 2
    others = rng.permutation(np.setdiff1d(first, order[:half]))
    return np.concatenate([order[:half], others[:half]])


# The state: what a run that was stopped goes on from.


class _State:
    """The rounds so far, a line each, after a line that says what they are rounds of."""

    def __init__(self, file: Path, seed: int) -> None:
        self.file, self.seed = file, seed
        self.seconds: list[float] = []
        self.seen: list[Floats] = []  # the traces of each round

    @classmethod
    def opened(
        cls,
        folder: Path,
        table: pl.DataFrame,
        columns: list[Column],
        options: Condensing,
        seed: int | None,
    ) -> _State:
        """Return what a run has done; another table or other options are refused."""
        if folder.exists() and not folder.is_dir():
            raise DataError(f"{folder} is a file: name a folder for the challenge")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise DataError(f"the folder {folder} cannot be made: {reason}") from None
        file = folder / STATE
        lines = _lines(file)
        known = next(lines, None)
        if known is None:
            known = {"format": _FORMAT, "seed": secrets.randbits(48) if seed is None else seed}
            known["of"] = _mark(table, columns, options, known["seed"])
            file.touch(mode=_PRIVATE)
            file.write_text(json.dumps(known) + "\n")
        same = _mark(table, columns, options, known.get("seed", 0))
        if (known.get("format"), known.get("of")) != (_FORMAT, same) or (
            seed is not None and seed != known["seed"]
        ):
            raise ParameterError(
                f"{folder} holds the rounds of another table, or of other options: name another "
                "folder with -o, or remove it"
            )
        state = cls(file, known["seed"])
        for done in lines:
            state.seconds.append(done["seconds"])
            state.seen.append(np.array(done["seen"]))
        return state

    def keep(self, seconds: float, seen: Floats) -> None:
        """Add a round."""
        self.seconds.append(seconds)
        self.seen.append(seen)
        with self.file.open("a") as file:
            file.write(json.dumps({"seconds": seconds, "seen": seen.tolist()}) + "\n")


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a state; the last one may have been cut off, and is then made again."""
    if not file.exists():
        return
    text = file.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        file.write_text(whole)
    for line in whole.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            raise DataError(f"{file} is damaged: remove it, or name another folder") from None


def _mark(table: pl.DataFrame, columns: list[Column], options: Condensing, seed: int) -> int:
    """Return 16 bits that tell a changed table or options; too few to tell what is in it."""
    own = {name: value for name, value in options.values().items() if name != "seed"}
    rows = int(table.hash_rows(seed % 2**32).sum())
    text = repr((rows, table.schema, columns, sorted(own.items()), options.policy.rules))
    return int(hashlib.sha256(text.encode()).hexdigest()[:4], 16)


# What was found.


def _judged(arena: _Arena, state: _State) -> Challenged:
    count = len(state.seen)
    if count < LEAST:
        raise DataError(
            f"{count} release(s) were made, and attackers need at least {LEAST} to learn from: run "
            "it again, it goes on where it was, or with a longer --minutes"
        )
    inside = np.stack([arena.drawn(number)[1][arena.targets] for number in range(count)])
    rng = np.random.default_rng([state.seed, 3])
    seconds = np.array(state.seconds)
    found, scores = zip(*steps(np.stack(state.seen), inside, seconds, rng))
    attack = challenge_result(scores[-1], inside, count)
    half = len(arena.targets) // 2
    far = inside[:, :half]
    outliers = area_under_curve(scores[-1][:, :half][far], scores[-1][:, :half][~far])
    best = max(found, key=lambda step: step.area)
    summary = {
        "releases": count,
        "targets": len(arena.targets),
        "people_in_each": int(arena.units.max() + 1) // 2,
        "cpu_seconds": float(seconds.sum()),
        "best_area": best.area,
        "low": best.low,
        "high": best.high,
        "control": best.control,
        "area_of_outliers": outliers,
        "named_at_1_percent": best.named,
        "advantage": attack.risk,
    }
    said = (
        f"After {counted(count, 'release')} ({seconds.sum():,.0f} CPU s) the best attacker ranks a "
        f"release with a person above one without in {best.area:.0%} of the pairs ({best.low:.0%} "
        f"to {best.high:.0%}), of outliers in {outliers:.0%}. Chance is 50 %, and luck alone "
        f"reached {best.control:.0%}."
    )
    return Challenged(list(found), attack, summary, said)


def _write(folder: Path, found: Challenged, name: str, command: str, notes: list[str]) -> None:
    """Write the page and the figures."""
    result: Result = {
        "title": f"Challenge of {name}",
        "summary": f"{found.said} {found.summary['targets']} targets, half of them outliers; each "
        "release is of half of the people.",
        "attacks": {"challenge": {**found.attack.to_dict(), "owner_only": True}},
        "sections": [_section(found)],
        "limits": [
            "With more time, other traces or other attackers more may be found.",
            "The releases are of half of the people: one of everybody tells a little less.",
            *notes,
        ],
        "command": command,
    }
    report.save(result, folder / PAGE, force=True)
    told = {**found.summary, "steps": [step._asdict() for step in found.steps]}
    with atomic_write(folder / FIGURES, force=True, mode=_PRIVATE) as file:
        file.write(json.dumps(plain(told), indent=2).encode() + b"\n")


def _section(found: Challenged) -> Section:
    curves: Mapping[str, str] = {"best attacker": "area", "shuffled (control)": "control"}
    rows = [
        {"curve": curve, "seconds": step.seconds, "measure": "area under the curve",
         "value": getattr(step, field)}
        for curve, field in curves.items()
        for step in found.steps
    ]  # fmt: skip
    steps = table(Achieved._fields, [list(step) for step in found.steps])
    return {
        "title": "Success against the attacker's time",
        "text": "How often the best of four attackers ranks a release with a person above one "
        "without: 0.5 is chance. The control is the same where who was in was shuffled.",
        "part": "identifiability",
        "owner_only": True,
        "blocks": [chart("challenge", rows), steps],
    }
