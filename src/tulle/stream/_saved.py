"""A stream's state to bytes and back: statistics, schema, seed words, and who waits."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tulle._checks import check_choice
from tulle._files import atomic_write
from tulle._json import plain, series_from_text, series_to_text
from tulle._types import Floats
from tulle.condense._classes import labels_of
from tulle.errors import DataError, KeyMaterialError, ParameterError
from tulle.keys import SecretKey
from tulle.stream._batches import Aside, Batch
from tulle.stream._exclusive import check_whole
from tulle.stream._groups import GroupArrays, Groups
from tulle.stream._ranges import Range, united_ranges
from tulle.stream._snapshots import Published
from tulle.stream._state import History, StreamState
from tulle.table._codecs import Affine
from tulle.table._encoder import TableEncoder
from tulle.table._frames import Border, enter_column
from tulle.table.schema import Column, ColumnsLike

if TYPE_CHECKING:
    from tulle.stream.condenser import StreamCondenser


# The file of a stream's state: a zip of NumPy arrays and one JSON header, with a digest.
# ``numpy.load`` and any zip reader open it. ``header.json`` names the format and its version and
# holds the SHA-256 over everything else, so that a damaged file is refused. Statistics only:
# records that still wait are in it as they are, sealed by a key, or not at all, as the caller
# says.

FORMAT = "tulle-stream-state"
VERSION = 1
_HEADER = "header.json"
_USE = "stream/waiting"
_BOUND = b"tulle-stream-waiting-v1"  # what a sealed part is bound to
_EPOCH = (1980, 1, 1, 0, 0, 0)  # no clock in the file: the same state is the same bytes
# what zipfile raises where a bit was flipped: an unknown compression, a password, and so on
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    ArithmeticError,
    RuntimeError,
    LookupError,
    ValueError,
    TypeError,
)
Arrays = dict[str, NDArray[Any]]


def to_bytes(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """One file from a header of JSON values and named arrays."""
    members = {f"{name}.npy": _as_npy(array) for name, array in sorted(arrays.items())}
    entries = {"format": FORMAT, "version": VERSION, **header}
    entries["sha256"] = _digest(entries, members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in [(_HEADER, json.dumps(entries).encode()), *members.items()]:
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    return buffer.getvalue()


def from_bytes(content: bytes, *, origin: str) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays, after the format, the version and the digest were checked."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in sorted(archive.namelist())}
        header: dict[str, Any] = json.loads(members.pop(_HEADER))
        if header["format"] != FORMAT:
            raise KeyError
        if header["version"] != VERSION:
            raise DataError(f"{origin} has format {header['version']}: this Tulle reads {VERSION}")
        expected = header.pop("sha256")
    except _DAMAGE as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{origin} is not the state of a stream, or it is damaged") from None
    if _digest(header, members) != expected:
        raise DataError(f"{origin} is damaged: its digest does not match its content")
    arrays = {
        name.removesuffix(".npy"): np.load(io.BytesIO(member), allow_pickle=False)
        for name, member in members.items()
    }
    return header, arrays


def seal(arrays: Arrays, key: SecretKey) -> NDArray[np.uint8]:
    """Arrays that only the key opens, as bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return np.frombuffer(key.seal(buffer.getvalue(), _USE, _BOUND), dtype=np.uint8)


def unseal(sealed: NDArray[np.uint8], key: SecretKey) -> Arrays:
    """The arrays again."""
    try:
        opened = key.unseal(sealed.tobytes(), _USE, _BOUND)
    except KeyMaterialError:
        raise KeyMaterialError("the waiting records were sealed with another key") from None
    with np.load(io.BytesIO(opened), allow_pickle=False) as arrays:
        return dict(arrays)


def _as_npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _digest(header: Mapping[str, Any], members: Mapping[str, bytes]) -> str:
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, content in sorted(members.items()):
        total.update(name.encode() + b"\0" + content)
    return total.hexdigest()


_PARAMETERS = ("k", "init_size", "split", "grouping", "classwise", "synthesis", "weights", "scales")
_STATE = (
    "n_seen_",
    "n_features_in_",
    "_names",
    "_has_target",
    "_level_column",
    "_seed",
    "_draws",
    "_shown_draw",
)


def save(
    condenser: StreamCondenser,
    path: str | os.PathLike[str],
    *,
    key: SecretKey | None,
    waiting: str,
    force: bool,
) -> None:
    """Writes a state file, readable by its owner only."""
    check_choice("save", "waiting", waiting, ("seal", "plain"))
    condenser._require_groups()
    if waiting == "seal" and key is None and condenser.n_waiting_:
        raise KeyMaterialError(
            f"{condenser.n_waiting_} records wait: pass a key to seal them, or waiting='plain' to "
            "write them as they are"
        )
    content = state_to_bytes(condenser, waiting=waiting, key=key)
    with atomic_write(path, force=force, mode=0o600) as file:
        file.write(content)


def load(
    cls: type[StreamCondenser], path: str | os.PathLike[str], *, key: SecretKey | None
) -> StreamCondenser:
    """Reads a state file."""
    condenser, _, owed = state_from_bytes(cls, Path(path).read_bytes(), key=key, origin=str(path))
    if owed:
        raise KeyMaterialError(
            f"{len(owed)} records wait in {path}, sealed or left out: pass the key that sealed them"
        )
    return condenser


def state_to_bytes(
    condenser: StreamCondenser,
    *,
    waiting: str,
    key: SecretKey | None = None,
    extra: dict[str, Any] | None = None,
) -> bytes:
    """The state; ``waiting`` records are "seal"ed, written "plain", or "omit"ted.

    Omitted or sealed, they are still counted, by their numbers in the stream and their levels.
    """
    check_whole(condenser)
    arrays: Arrays = {}
    for place, state in enumerate(condenser._states.values()):
        _put(arrays, f"{place}.groups", state.groups)
        if state.published is not None:
            _put(arrays, f"{place}.published", state.published.shown)
            _put(arrays, f"{place}.behind", state.published.behind)
    records = _waiting_arrays(condenser)
    if records and waiting == "plain":
        arrays |= records
    elif records and waiting == "seal" and key is not None:
        arrays["sealed"] = seal(records, key)
    return to_bytes(_header(condenser) | {"extra": extra or {}}, arrays)


def state_from_bytes(
    cls: type[StreamCondenser], content: bytes, *, key: SecretKey | None, origin: str
) -> tuple[StreamCondenser, dict[str, Any], list[dict[str, Any]]]:
    """The condenser, what was saved beside it, and the waiting records that are owed to it.

    Each owed record is ``{"state": place, "number": ..., "level": ...}``; hand them to
    :func:`resupply` in this order.
    """
    header, arrays = from_bytes(content, origin=origin)
    condenser = _restored(cls, header)
    records = arrays
    if "sealed" in arrays and key is not None:
        records = unseal(arrays["sealed"], key)
    owed = []
    for place, (entries, label) in enumerate(zip(header["states"], _labels(header))):
        state = _state(entries, arrays, place, len(condenser._encoder.scales_))
        waiting = [{"state": place, **waiter} for waiter in entries["waiting"]]
        condenser._states[label] = state
        if f"{place}.waiting" in records:
            _give_back(condenser, state, waiting, records[f"{place}.waiting"])
        else:
            owed += waiting
    condenser._shown_ranges = _shown_ranges(header)
    return condenser, header["extra"], owed


def resupply(condenser: StreamCondenser, owed: list[dict[str, Any]], X: Any) -> None:
    """Gives back waiting records that the saved state left out, read again by their owner."""
    batch = Batch.of(X, None, classwise=False, names=condenser._names)
    matrix = condenser._encoder.encode(batch.frame)
    for place, state in enumerate(condenser._states.values()):
        rows = [row for row, waiter in enumerate(owed) if waiter["state"] == place]
        if rows:
            _give_back(condenser, state, [owed[row] for row in rows], matrix[rows])


def _give_back(
    condenser: StreamCondenser, state: StreamState, waiting: list[dict[str, Any]], rows: Floats
) -> None:
    """Puts waiting records (encoded, in natural units) back where they were."""
    for waiter, row, record in zip(waiting, rows, condenser._standardised(rows), strict=True):
        state.waiting.add(record, waiter["level"], waiter["number"])
        condenser._aside.rows[int(waiter["number"])] = np.array(row)


def _header(condenser: StreamCondenser) -> dict[str, Any]:
    labels = condenser._labels
    return {
        "parameters": {name: plain(getattr(condenser, name)) for name in _PARAMETERS},
        "columns": _columns_to_json(condenser.columns),
        "fitted": {name: getattr(condenser, name) for name in _STATE},
        "feature_names": plain(getattr(condenser, "feature_names_in_", None)),
        "location": condenser._location.tolist(),
        "encoder": condenser._encoder.to_json(),
        "border": condenser._border.to_json(),
        "shown_ranges": condenser._shown_ranges,
        "classes": None if labels is None else series_to_text(labels.of(condenser.classes_).domain),
        "states": [
            {
                "seen": state.seen,
                "strict": state.strict,
                "history": asdict(state.history),
                "waiting": [
                    {"number": waiter.number, "level": waiter.level}
                    for waiter in state.waiting.waiters
                ],
            }
            for state in condenser._states.values()
        ],
    }


def _restored(cls: type[StreamCondenser], header: dict[str, Any]) -> StreamCondenser:
    condenser = cls(**header["parameters"], columns=_columns_from_json(header["columns"]))
    for name, value in header["fitted"].items():
        setattr(condenser, name, value)
    if header["feature_names"] is not None:
        condenser.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    condenser._encoder = TableEncoder.from_json(header["encoder"])
    condenser._border = Border.from_json(header["border"])
    condenser._location = np.array(header["location"])
    condenser._pending, condenser._example = None, []
    condenser._aside = Aside()
    condenser._states = {}
    condenser._fresh_container = True
    condenser._fixed = condenser.split, condenser.classwise
    condenser._labels = None
    if header["classes"] is not None:
        condenser._labels = labels_of(*enter_column(series_from_text(header["classes"]))).schema
    return condenser


def _columns_to_json(columns: ColumnsLike | None) -> Any:
    if columns is None:
        return None
    if isinstance(columns, Mapping):
        entries = columns.items()
        return {n: e.to_json() if isinstance(e, Column) else str(e) for n, e in entries}
    return [column.to_json() for column in columns]


def _columns_from_json(entries: Any) -> ColumnsLike | None:
    if isinstance(entries, dict):
        items = entries.items()
        return {n: e if isinstance(e, str) else Column.from_json(e) for n, e in items}
    return None if entries is None else [Column.from_json(entry) for entry in entries]


def _state(entries: dict[str, Any], arrays: Arrays, place: int, dimensions: int) -> StreamState:
    state = StreamState(dimensions, strict=entries["strict"])
    state.groups = _get(arrays, f"{place}.groups", dimensions)
    if f"{place}.published.counts" in arrays:
        state.published = Published(
            _get(arrays, f"{place}.published", dimensions),
            _get(arrays, f"{place}.behind", dimensions),
        )
    state.history = History(**entries["history"])
    state.seen = entries["seen"]
    return state


def _shown_ranges(header: dict[str, Any]) -> list[Range] | None:
    """The ranges of the last snapshot."""
    saved = header["shown_ranges"]
    if saved is None:
        return None
    return [
        Range(low, high, None if pair is None else (pair[0], pair[1])) for low, high, pair in saved
    ]


def _put(arrays: Arrays, prefix: str, groups: Groups) -> None:
    for name, array in groups.view()._asdict().items():
        arrays[f"{prefix}.{name}"] = array


def _get(arrays: Arrays, prefix: str, dimensions: int) -> Groups:
    parts = GroupArrays._make(arrays[f"{prefix}.{name}"] for name in GroupArrays._fields)
    if parts.means.shape != (len(parts.counts), dimensions):
        raise DataError("the saved groups do not fit the saved columns")
    groups = Groups(dimensions, capacity=max(64, len(parts.counts)))
    groups.size = len(parts.counts)
    for target, saved in zip(groups.arrays, parts, strict=True):
        target[: groups.size] = saved
    return groups


def _waiting_arrays(condenser: StreamCondenser) -> Arrays:
    """The waiting records of each state, in natural units."""
    aside = condenser._aside.rows
    return {
        f"{place}.waiting": np.array([aside[waiter.number] for waiter in state.waiting.waiters])
        for place, state in enumerate(condenser._states.values())
        if len(state.waiting)
    }


def _labels(header: dict[str, Any]) -> list[Any]:
    return [None] if header["classes"] is None else series_from_text(header["classes"]).to_list()


# Two streams as one: groups, waiting records, history and what snapshots have shown.


def merge(first: StreamCondenser, second: StreamCondenser) -> StreamCondenser:
    """A condenser that has seen both, on the scales of the first; both stay as they are."""
    if not isinstance(second, type(first)):
        raise ParameterError(f"a stream merges with another, not with a {type(second).__name__}")
    if second is first:
        raise ParameterError("a stream does not merge with itself: every record would count twice")
    for part in (first, second):
        part._require_groups()
    if (first._labels is None) != (second._labels is None):
        raise DataError("one stream is condensed class by class and the other is not")
    if first._has_target != second._has_target:
        raise DataError("one stream has a target and the other has none")
    if first.split != second.split:
        raise DataError("one stream splits strictly and the other as in the paper")
    merged = copy.deepcopy(first)
    merged._encoder, *ways = first._encoder.merge(second._encoder)
    merged._shown_ranges = united_ranges(
        first._encoder, first._shown_ranges, second._encoder, second._shown_ranges
    )
    merged._location = first._location @ ways[0].linear + ways[0].shift
    mine, theirs = (_standardised(way, part, merged) for way, part in zip(ways, (first, second)))
    merged._states = {label: state.moved(mine, 0) for label, state in first._states.items()}
    for label, state in zip(_labels_of(second, first), second._states.values(), strict=True):
        merged._state_of(label).take_over(state.moved(theirs, first.n_seen_))
    merged.n_seen_ = first.n_seen_ + second.n_seen_
    merged._seed = _seed_of_both(first, second)
    merged._shown_draw = merged._next_draw()
    merged._aside = first._aside.moved(ways[0], 0)
    merged._aside.rows |= second._aside.moved(ways[1], first.n_seen_).rows
    merged._note_joined(np.zeros((0, len(merged._location))), merged.n_seen_)
    return merged


def _seed_of_both(first: StreamCondenser, second: StreamCondenser) -> list[int]:
    """A seed of its own: what one of them draws, the other must not draw again."""
    both: list[int] = (
        np.random.default_rng([*first._seed, *second._seed])
        .integers(0, 2**63, size=len(first._seed))
        .tolist()
    )
    return both


def _labels_of(part: StreamCondenser, whole: StreamCondenser) -> list[Any]:
    """The classes of a stream in the type that they have in another."""
    if part._labels is None or whole._labels is None:
        return [None]
    return whole._labels.converted(part._labels.of(part.classes_).domain).to_list()


def _standardised(way: Affine, part: StreamCondenser, whole: StreamCondenser) -> Affine:
    """A way between natural units as one between the standardised units of two streams."""
    scales = whole._encoder.scales_
    shift = part._location @ way.linear + way.shift - whole._location
    return Affine(part._encoder.scales_[:, None] * way.linear / scales, shift / scales)
