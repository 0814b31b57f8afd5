"""Sketches in files: Parquet (a ragged list a record) or npz (zero-padded), with a manifest.

Parquet is written part by part, so that sketches of a stream need not be held together.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tulle.errors import DataError, ParameterError
from tulle.files import digest
from tulle.releases import Manifest, has_manifest, read_manifest, write_release

if TYPE_CHECKING:
    from tulle.sketch.sketches import Sketches

FilePath = str | os.PathLike[str]

_KINDS = (".parquet", ".npz")


def write_sketches(
    parts: Iterable[Sketches],
    path: FilePath,
    *,
    source: Mapping[str, Any] | None = None,
    sources: tuple[FilePath, ...] = (),
    force: bool = False,
) -> Manifest:
    """Writes parts of sketches, made alike, as one release with its manifest; or nothing at all.

    The number of records is added to what is said of the ``source``.
    """
    check_kind(path)
    rest = iter(parts)
    first = next(rest)
    counts: dict[str, Any] = {}
    described = dict(source or {})
    lengths: list[npt.NDArray[np.int64]] = []

    def counted() -> Iterator[Sketches]:
        for part in chain([first], rest):
            lengths.append(part.lengths)
            yield part

    def put(file: BinaryIO) -> None:
        _put_npz(counted(), file) if _kind(path) == ".npz" else _put_parquet(counted(), file)
        # the manifest is completed after the data are there
        counts.update(counts_of(np.concatenate(lengths)))
        described["records"] = counts["records"]

    manifest = Manifest(
        method="sketch",
        parameters=first.provenance.get("parameters", {}),
        guarantee=first.provenance.get("guarantee", {}),
        verified=first.provenance.get("verified", {}),
        counts=counts,
        source=described,
        seed="key",
    )
    return write_release(path, put, manifest, sources=sources, force=force)


def check_kind(path: FilePath) -> None:
    """Refuses a name that sketches cannot be saved under."""
    if _kind(path) not in _KINDS:
        raise ParameterError(f"sketches are saved as .parquet or .npz. Got '{_kind(path)}'.")


def counts_of(lengths: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Records, suppressed ones, and the spread of the lengths of the others."""
    released = lengths[lengths > 0]
    marks = [0, 0.25, 0.5, 0.75, 1]
    spread = np.quantile(released, marks, method="lower").tolist() if len(released) else []
    return {
        "records": len(lengths),
        "suppressed": len(lengths) - len(released),
        "components (min, quartiles, max)": spread,
    }


def read_sketches(path: FilePath) -> tuple[Any, Any, dict[str, Any]]:
    """Values, lengths and provenance of a file; the manifest may be missing, but not wrong."""
    if not Path(path).is_file():
        raise DataError(f"the file {path} does not exist")
    values, lengths = _read_npz(path) if _kind(path) == ".npz" else _read_parquet(path)
    if not has_manifest(path):
        return values, lengths, {}
    found = read_manifest(path)
    if found.output.get("sha256") != digest(path):
        raise DataError(
            f"{path} is not the file that its manifest speaks of: remove the manifest to load it "
            "without its promises"
        )
    names = ("parameters", "guarantee", "verified")
    return values, lengths, {name: getattr(found, name) for name in names}


def _kind(path: FilePath) -> str:
    return Path(path).suffix.lower()


def _put_npz(parts: Iterable[Sketches], file: BinaryIO) -> None:
    from tulle.sketch.sketches import Sketches

    whole = Sketches.stacked(list(parts))
    np.savez_compressed(file, values=whole.values, lengths=whole.lengths)


def _put_parquet(parts: Iterable[Sketches], file: BinaryIO) -> None:
    from tulle.tables.writing import put_batches

    put_batches(map(_frame, parts), file, "sketches.parquet")


def _frame(sketches: Sketches) -> Any:
    import polars as pl

    lengths = sketches.lengths.astype(np.int32)
    frame = pl.DataFrame({"length": lengths, "sketch": sketches.values})
    return frame.with_columns(pl.col("sketch").arr.to_list().list.head(pl.col("length")))


def _read_npz(path: FilePath) -> tuple[Any, Any]:
    from zipfile import BadZipFile

    try:
        with np.load(path, allow_pickle=False) as stored:
            return stored["values"], stored["lengths"]
    except (ValueError, KeyError, OSError, AttributeError, TypeError, BadZipFile, EOFError):
        raise DataError(f"{path} holds no sketches") from None


def _read_parquet(path: FilePath) -> tuple[Any, Any]:
    import polars as pl

    try:
        frame = pl.read_parquet(Path(path)).select("length", "sketch")
        own = frame.select((pl.col("sketch").list.len() == pl.col("length")).all()).item()
        own = own and frame["length"].dtype.is_integer() and not frame["length"].null_count()
    except (pl.exceptions.PolarsError, OSError):
        own = False
    if not own or frame.schema["sketch"] not in (pl.List(pl.Float32), pl.List(pl.Float64)):
        raise DataError(f"{path} holds no sketches")
    lengths = frame["length"].to_numpy().astype(np.int64)
    flat = frame.filter(pl.col("length") > 0)["sketch"].explode().to_numpy()
    values = np.zeros((len(lengths), max(1, int(lengths.max(initial=0)))), flat.dtype)
    values[np.arange(values.shape[1]) < lengths[:, None]] = flat
    return values, lengths
