"""``tulle learn``: neighbours, classes and clusters of sketches, or of a table's groups."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tulle._checks import check_int, check_real
from tulle._commands._columns import plan_columns, without_opaque
from tulle._commands._decision import Done
from tulle._commands._options import Options, resolve
from tulle._commands._sources import check_files
from tulle._random import as_generator
from tulle._types import FilePath
from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser
from tulle.errors import DataError, ParameterError, PrivacyWarning, nearest_name
from tulle.io.read import open_table, read_like, read_table
from tulle.io.write import write_table
from tulle.keys import SecretKey

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    from tulle.sketch.sketches import Sketches

_QUERIES = 512  # records whose neighbours are looked for together
_APART = 3  # one record in so many tests the classes


@dataclass(frozen=True)
class Learning(Options):
    """The options of ``tulle learn``."""

    neighbours: int | None = None  # to list; of a classifier of sketches: 25 that vote
    classes: str | None = None  # the field that has them
    within: float | None = None  # of classes that are numbers: how far off is still right
    clusters: int | None = None
    estimate: str | None = None  # a file of words
    k: int = 10  # of the groups of a table
    seed: int | None = None


def learn(
    source: FilePath,
    *,
    new: FilePath | None = None,
    key_file: FilePath | None = None,
    output: FilePath | None = None,
    force: bool = False,
    **given: Any,
) -> Done:
    """Mine a file of sketches, or the groups of a table, without looking at any record.

    Classes are predicted for the records of ``new``, or for a third of the source, kept apart.
    """
    from tulle.sketch.sketches import Sketches

    options = resolve("learn", Learning(), None, given)
    _refuse_contradictions(options, new, key_file)
    words = options.estimate
    reads = {"INPUT": source, "--new": new, "--key-file": key_file, "--estimate": words}
    check_files(reads, writes={"--output": output}, force=force)
    rng = as_generator(options.seed)
    with options.naming(n_clusters="--clusters", n_neighbors="--neighbours"):
        is_sketches = Path(source).suffix == ".parquet" and "sketch" in open_table(source).schema
        if not is_sketches:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyWarning)  # of drawn records: none is drawn
                summary, found = _from_groups(source, new, options, rng)
        elif words is not None and key_file is not None:
            summary, found = _estimated(Sketches.load(source), words, key_file)
        elif options.classes is not None:
            labels = _labels(source, options.classes)
            summary, found = _classified(Sketches.load(source), labels, new, options, rng)
        elif options.clusters is not None:
            summary, found = _clustered(Sketches.load(source), options.clusters, rng)
        else:
            summary, found = _listed(Sketches.load(source), options.neighbours or 1)
    if output is not None:
        write_table(found, output, private=True, force=force)
    notes = [] if output is None else [f"all       {output}"]
    return Done(summary, {"the first": found.head(20).to_dicts()}, notes)


def _refuse_contradictions(options: Learning, new: Any, key_file: Any) -> None:
    for name in ("neighbours", "clusters", "k"):
        if getattr(options, name) is not None:
            check_int("learn", name, getattr(options, name), 1)
    tasks = [n for n in ("classes", "clusters", "estimate") if getattr(options, n) is not None]
    if len(tasks) > 1 or not (tasks or options.neighbours):
        raise ParameterError("give one of --neighbours, --classes, --clusters and --estimate")
    if (options.estimate is None) != (key_file is None):
        raise ParameterError("--estimate needs --key-file, and nothing else does: give both")
    if options.within is not None:
        check_real("learn", "within", options.within, 0)
        if options.classes is None or new is not None:
            raise ParameterError(
                "--within counts as right what is nearly so: it is for --classes that are numbers, "
                "and without --new, whose classes nobody knows"
            )
    if new is not None and options.classes is None:
        raise ParameterError("--new names records whose --classes are to be told: give both")


def _labels(source: FilePath, field: str) -> pl.Series:
    """Return a column of a table; of sketches, one that was kept next to them."""
    names = list(open_table(source).schema)
    if field not in names:
        raise DataError(
            f"there is no field '{field}' to learn: {nearest_name(field, names)}; tulle sketch "
            "--keep puts one next to the sketches"
        )
    return read_table(source, [field])[field]


def _classified(
    sketches: Sketches,
    labels: pl.Series,
    new: FilePath | None,
    options: Learning,
    rng: np.random.Generator,
) -> tuple[dict[str, Any], pl.DataFrame]:
    from tulle.sketch.miners import SketchKNeighborsClassifier
    from tulle.sketch.sketches import Sketches

    known = labels.is_not_null().to_numpy()
    test = rng.permutation(len(sketches)) % _APART == 0 if new is None else np.zeros_like(known)
    train = np.flatnonzero(known & ~test)
    model = SketchKNeighborsClassifier(options.neighbours or 25)
    model.fit(sketches[train], labels.gather(train).to_numpy())
    asked = sketches[test] if new is None else Sketches.load(new)
    shares = model.predict_proba(asked)
    told = model.classes_[shares.argmax(axis=1)]
    hidden = np.flatnonzero(asked.suppressed)  # nothing is known of them: as in the paper, a draw
    told[hidden] = [rng.choice(model.classes_, p=shares[row]) for row in hidden]
    truth = labels.filter(test) if new is None else None
    sure = shares.max(axis=1)
    return _told(told, truth, sure, len(train), np.flatnonzero(test), options.within)


def _told(
    told: npt.NDArray[Any],
    truth: pl.Series | None,
    sure: npt.NDArray[np.float64] | None,
    trained: int,
    rows: npt.NDArray[np.int64],
    within: float | None,
) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return classes as a table, and how many of them are right where that is known."""
    places = np.arange(len(told)) if truth is None else rows
    found = pl.DataFrame({"record": places + 1, "class": told})
    if within is not None and not found["class"].dtype.is_numeric():
        raise ParameterError("--within is for --classes that are numbers, and these are none")
    if sure is not None:
        found = found.with_columns(share=pl.Series(sure))
    summary: dict[str, Any] = {"records_learnt_from": trained, "records_classified": len(told)}
    if truth is not None:
        kept = truth.is_not_null()
        right = (found["class"] == truth).filter(kept)
        if within is not None:
            right = ((found["class"] - truth).abs() <= within).filter(kept)
        sizes = truth.drop_nulls().value_counts()["count"].to_numpy()
        usual = float(sizes.max(initial=0)) / max(int(sizes.sum()), 1)
        summary |= {"accuracy": right.mean(), "largest_class": usual}
    return summary, found


def _clustered(
    sketches: Sketches, count: int, rng: np.random.Generator
) -> tuple[dict[str, Any], pl.DataFrame]:
    from tulle.sketch.miners import SketchKMeans

    model = SketchKMeans(count, random_state=rng).fit(sketches)
    labels, hidden = model.labels_.copy(), sketches.suppressed
    labels[hidden] = rng.integers(0, count, int(hidden.sum()))  # as in the paper
    return _sizes(labels, count, float(model.inertia_))


def _sizes(labels: Any, count: int, error: float) -> tuple[dict[str, Any], pl.DataFrame]:
    sizes = np.bincount(labels, minlength=count)
    summary = {
        "records": len(labels),
        "clusters": count,
        "largest_cluster": int(sizes.max()),
        "smallest_cluster": int(sizes.min()),
        "squared_error": error,
    }
    return summary, pl.DataFrame({"record": np.arange(len(labels)) + 1, "cluster": labels + 1})


def _listed(sketches: Sketches, count: int) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return the nearest sketches of each, with what was estimated of the pair."""
    rows = np.flatnonzero(~sketches.suppressed)
    seen, parts = sketches[rows], []
    count = min(count, len(rows) - 1)
    for start in range(0, len(rows) if count else 0, _QUERIES):
        some = np.arange(start, min(start + _QUERIES, len(rows)))
        parts.append(_nearest(seen, some, count))
    found = pl.concat(parts) if parts else pl.DataFrame()
    named = [pl.Series(name, rows[found[name].to_numpy()] + 1) for name in found.columns[:2]]
    summary = {
        "records": len(sketches),
        "suppressed": len(sketches) - len(rows),
        "median_length": float(np.median(seen.norms())),
        "length_of_the_centroid": float(seen.centroid().norms()[0]),
    }
    return summary, found.with_columns(named)


def _nearest(seen: Sketches, some: npt.NDArray[np.int64], count: int) -> pl.DataFrame:
    cosines = seen[some].cosines(seen)
    cosines[np.arange(len(some)), some] = -np.inf
    near = np.argsort(-cosines, axis=1, kind="stable")[:, :count]

    def of_pairs(table: Any) -> Any:
        return np.take_along_axis(table, near, axis=1).ravel()

    return pl.DataFrame(
        {
            "record": np.repeat(some, count),
            "neighbour": near.ravel(),
            "cosine": of_pairs(cosines),
            "dot_product": of_pairs(seen[some].dot(seen)),
            "distance": of_pairs(seen[some].distances(seen)),
        }
    )


def _estimated(
    sketches: Sketches, words: FilePath, key_file: FilePath
) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return how often each record holds some words, as the holder of the key estimates it."""
    from tulle.sketch.sketcher import Sketcher

    asked = Path(words).read_text(encoding="utf-8").split()
    if not asked:
        raise DataError(f"{words} has no words: write one on each line")
    owner = Sketcher(key=SecretKey.load(key_file)).fit([" ".join(asked)])
    values = owner.reconstruct(sketches, asked)
    found = pl.DataFrame(values, schema=asked).insert_column(
        0, pl.Series("record", np.arange(len(sketches)) + 1)
    )
    return {"records": len(sketches), "words": len(asked)}, found


def _from_groups(
    source: FilePath, new: FilePath | None, options: Learning, rng: np.random.Generator
) -> tuple[dict[str, Any], pl.DataFrame]:
    """Mine the condensed groups of a table instead of its records."""
    from tulle.condense.miners import GroupClassifier, GroupKMeans

    if options.classes is None and options.clusters is None:
        raise ParameterError("of a table, --classes and --clusters can be learnt")
    table = read_table(source)
    columns = plan_columns(table, options, target=options.classes)
    table, known = without_opaque(table, columns)
    if options.clusters is not None:
        groups = GroupKMeans(
            options.clusters,
            Condenser(options.k, columns=known, random_state=rng),
            random_state=rng,
        ).fit(table)
        return _sizes(groups.predict(table), options.clusters, float(groups.inertia_))
    field = str(options.classes)
    others = [column for column in known if column.name != field]
    apart = rng.permutation(table.height) % _APART == 0
    train = table if new is not None else table.filter(~apart)
    template = Condenser(columns=others, random_state=rng)
    sizes = train[field].value_counts()["count"]
    learnt = int(sizes.filter(sizes >= options.k).sum())  # smaller classes are not predicted
    model = GroupClassifier(ClassCondenser(template, k=options.k, small_classes="suppress"))
    model.fit(train.drop(field), train[field])
    asked = table.filter(apart) if new is None else read_like(new, table.drop(field), source)
    told = model.predict(asked.drop(field, strict=False))
    truth = asked[field] if new is None else None
    return _told(told, truth, None, learnt, np.flatnonzero(apart), options.within)
