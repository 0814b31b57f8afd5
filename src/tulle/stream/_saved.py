"""The file of a stream's state: a zip of NumPy arrays and one JSON header, with a digest.

``numpy.load`` and any zip reader open it. ``header.json`` names the format and its version and
holds the SHA-256 over everything else, so that a damaged file is refused. Statistics only: records
that still wait are in it unencrypted, sealed by a key, or not at all, as the caller chooses. So are
hashes of people, where these have several records, except that they cannot be left out.

Such a file may come from someone else. Members are stored, not compressed, so that no
file unfolds into more than its own size; every value is checked before a condenser takes it; and
whatever goes wrong is one line that holds no value of the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._json import plain, read_json, series_from_json, series_to_json
from tulle._types import Floats
from tulle.condense._classes import LabelSchema, labels_of
from tulle.errors import DataError, KeyMaterialError
from tulle.keys import SecretKey
from tulle.stream._batches import Aside, Batch
from tulle.stream._fitted import Fitted
from tulle.stream._groups import UNPUBLISHED, GroupArrays, StreamGroups
from tulle.stream._newcomers import Newcomer, Newcomers
from tulle.stream._people import GroupMembers, PersonHash
from tulle.stream._ranges import Range, confined, draw, seen_ranges
from tulle.stream._snapshots import Published
from tulle.stream._state import History, StreamState, check_reach
from tulle.table._encoder import TableEncoder
from tulle.table._frames import Border, enter_column
from tulle.table.schema import Column, ColumnsLike

if TYPE_CHECKING:
    from tulle.stream.condenser import StreamCondenser

FORMAT = "tulle-stream-state"
VERSION = 1
PARAMETERS = ("k", "init_size", "split", "grouping", "classwise", "synthesis", "weights", "scales")
MOST = 2**31 - 1  # members of a group: the index counts no further
_HEADER = "header.json"
_USE = "stream/waiting"
_BOUND = b"tulle-stream-waiting-v1"  # what a sealed part is bound to
_EPOCH = (1980, 1, 1, 0, 0, 0)  # no clock in the file: the same state is the same bytes
Arrays = dict[str, NDArray[Any]]
Entries = dict[str, Any]
Parts = tuple[bytes | memoryview, ...]  # of a member


def write_state(
    file: BinaryIO,
    condenser: StreamCondenser,
    *,
    waiting: str,
    key: SecretKey | None = None,
    extra: Entries | None = None,
) -> None:
    """Write the state; ``waiting`` records are "seal"ed, written "plain", or "omit"ted.

    Omitted or sealed, they are still counted, by their numbers in the stream and their levels.
    """
    fitted = condenser._fitted
    header, arrays = fitted_to_parts(fitted)
    private = _waiting_arrays(fitted) | _people_arrays(fitted)
    if private and waiting == "plain":
        arrays |= private
    elif private and waiting == "seal" and key is not None:
        arrays["sealed"] = _seal(private, key)
    elif fitted.persons is not None:
        raise KeyMaterialError(
            "the state of a stream that counts people holds hashes of them and the secret behind "
            "these: pass a key to seal them, or waiting='plain' to write them unencrypted"
        )
    header |= {
        "parameters": {name: plain(getattr(condenser, name)) for name in PARAMETERS},
        "columns": _columns_to_json(condenser.columns),
        "n_features": condenser.n_features_in_,
        "feature_names": plain(getattr(condenser, "feature_names_in_", None)),
        "extra": extra or {},
    }
    _write(file, header, arrays)


def state_from_bytes(
    cls: type[StreamCondenser], content: bytes, *, key: SecretKey | None, origin: str
) -> tuple[StreamCondenser, Entries, list[Entries]]:
    """Return the condenser, what was saved with it, and the waiting records still missing from it.

    Each owed record is ``{"state": place, "number": ..., "level": ...}``; hand them to
    :func:`resupply` in this order.
    """
    header, arrays = from_bytes(content, origin=origin)
    with _refusing(origin):
        fitted, owed = _with_waiting(header, arrays, key)
        condenser = cls(**header["parameters"], columns=_columns_from_json(header["columns"]))
        condenser._continue(fitted)
        condenser._fresh_container = True  # which kind of table comes is not known yet
        condenser.n_features_in_ = _whole(header["n_features"], 1)
        if header["feature_names"] is not None:
            names = _texts(header["feature_names"])
            _require(names == fitted.names[: condenser.n_features_in_])
            condenser.feature_names_in_ = np.array(names, dtype=object)
        _require(isinstance(header["extra"], dict))
        _try_out(fitted)
    return condenser, header["extra"], owed


def resupply(condenser: StreamCondenser, owed: list[Entries], X: Any) -> None:
    """Put back waiting records that the saved state left out, read again by their owner."""
    fitted = condenser._fitted
    frame = Batch.of(X, None, classwise=False, names=fitted.names).frame
    matrix, fresh = fitted.encoder.encode_arriving(frame)
    unknown = [
        {name: frame[name][row] for name, waits in fresh.items() if waits[row]}
        for row in range(frame.height)
    ]
    waits = np.array(["newcomer" in waiter for waiter in owed], dtype=bool)
    fitted.give_back([w for w in owed if "newcomer" not in w], matrix[~waits])
    _let_wait(
        fitted,
        [w for w in owed if "newcomer" in w],
        matrix[waits],
        [unknown[row] for row in np.flatnonzero(waits)],
    )


def _try_out(fitted: Fitted) -> None:
    """Draw one record and encode it again, so that defects of the codecs are found now."""
    rng = np.random.default_rng(0)
    first = [state.groups.taken(np.arange(1)) for state in fitted.states.values() if state.groups]
    if not first:
        return
    encoder = fitted.encoder
    frame, _ = draw(encoder, fitted.location, first, rng, distribution="uniform", n_samples=1)
    if fitted.shown_ranges is not None:
        confined(encoder, fitted.shown_ranges)
    fitted.border.leave(frame)
    if not encoder.problems(frame):
        deepcopy(encoder).widen(encoder.encode(frame))


def _with_waiting(
    header: Entries, arrays: Arrays, key: SecretKey | None
) -> tuple[Fitted, list[Entries]]:
    """Return the fitted state with the file's waiting records, and those the file leaves out."""
    fitted, waiting = fitted_from_parts(header, arrays)
    records = arrays
    if "sealed" in arrays and key is not None:
        records = _unseal(arrays["sealed"], key)
    if header["persons"] is not None:
        _require("secret" in records or "sealed" in arrays)
        if "secret" not in records:
            raise KeyMaterialError("the people of the stream are sealed: pass the key")
        fitted = _with_people(fitted, header["persons"], records, waiting)
    owed: list[Entries] = []
    for place, waiters in enumerate(waiting):
        if f"{place}.waiting" not in records:
            owed += waiters
            continue
        rows = records[f"{place}.waiting"]
        _require(rows.shape == (len(waiters), len(fitted.location)))
        check_reach(fitted.standardised(rows))
        fitted.give_back(waiters, rows)
    newcomers = [
        _waiter(entry["state"], entry, fitted.seen) | {"newcomer": True}
        for entry in header.get("newcomers", [])
    ]
    if "newcomers.waiting" not in records:
        return fitted, owed + newcomers
    rows = records["newcomers.waiting"]
    _require(rows.shape == (len(newcomers), len(fitted.location)))
    check_reach(fitted.standardised(rows))
    _let_wait(fitted, newcomers, rows, _unknown_from_bytes(records["newcomers.unknown"], len(rows)))
    return fitted, owed


def _let_wait(
    fitted: Fitted, waiters: list[Entries], matrix: Floats, unknown: list[dict[str, Any]]
) -> None:
    """Put back the records that wait for a category."""
    labels = list(fitted.states)
    for waiter, row, values in zip(waiters, matrix, unknown, strict=True):
        _require(0 <= waiter["state"] < len(labels) and values.keys() <= fitted.encoder.growing)
        fitted.newcomers.people.append(
            Newcomer(
                np.array(row), waiter["level"], waiter["number"], labels[waiter["state"]], values
            )
        )
    fitted.newcomers.due(fitted.encoder)  # counts them


# What was fitted as JSON values and arrays, and back.


def fitted_to_parts(fitted: Fitted) -> tuple[Entries, Arrays]:
    """Return everything but the waiting records themselves."""
    arrays: Arrays = {}
    for place, state in enumerate(fitted.states.values()):
        _put(arrays, f"{place}.groups", state.groups)
        if state.published is not None:
            _put(arrays, f"{place}.published", state.published.shown)
            _put(arrays, f"{place}.behind", state.published.behind)
    labels = fitted.labels
    header = {
        "seen": fitted.seen,
        "names": fitted.names,
        "level_column": fitted.level_column,
        "persons": None if fitted.persons is None else fitted.persons.to_json(),
        "has_target": fitted.has_target,
        "classes": None if labels is None else series_to_json(labels.of([*fitted.states]).domain),
        "border": fitted.border.to_json(),
        "encoder": fitted.encoder.to_json(),
        "location": fitted.location.tolist(),
        "seed": fitted.seed,
        "draws": fitted.draws,
        "shown_draw": fitted.shown_draw,
        "shown_ranges": fitted.shown_ranges,
        "states": [_state_to_json(state) for state in fitted.states.values()],
        "newcomers": [
            {"state": [*fitted.states].index(p.label), "number": p.number, "level": p.level}
            for p in fitted.newcomers.people
        ],
    }
    return header, arrays


def fitted_from_parts(header: Entries, arrays: Arrays) -> tuple[Fitted, list[list[Entries]]]:
    """Return the fitted state, and for each class the records that wait in it."""
    encoder = TableEncoder.from_json(header["encoder"])
    location = _numbers(header["location"], len(encoder.scales_))
    _require(bool(np.isfinite(encoder.scales_).all() and (encoder.scales_ > 0).all()))
    for low, high, _ in seen_ranges(encoder):
        _pair([low, high])
    labels, classes = _classes(header["classes"])
    seen = _whole(header["seen"], 1)
    states, waiting = {}, []
    for place, (label, entries) in enumerate(zip(classes, header["states"], strict=True)):
        states[label] = _state_from_json(entries, arrays, place, len(location))
        waiting.append([_waiter(place, waiter, seen) for waiter in entries["waiting"]])
        condensed = states[label].condensed + len(waiting[-1])
        _require(states[label].seen == condensed)
    newcomers = header.get("newcomers", [])
    _require(sum(state.seen for state in states.values()) + len(newcomers) == seen)
    level_column = header["level_column"]
    _require(level_column is None or isinstance(level_column, str))
    _require(type(header["has_target"]) is bool)
    fitted = Fitted(
        seen=seen,
        names=_texts(header["names"]),
        level_column=level_column,
        persons=None,
        has_target=header["has_target"],
        labels=labels,
        border=Border.from_json(header["border"]),
        encoder=encoder,
        location=location,
        states=states,
        aside=Aside(),
        newcomers=Newcomers(),
        strict=any(state.strict for state in states.values()),
        seed=[_whole(word) for word in header["seed"]],
        draws=_whole(header["draws"]),
        shown_draw=_whole(header["shown_draw"]),
        shown_ranges=_ranges(header["shown_ranges"], len(seen_ranges(encoder))),
    )
    return fitted, waiting


def _state_to_json(state: StreamState) -> Entries:
    waiters = state.waiting.waiters
    return {
        "seen": state.seen,
        "strict": state.strict,
        "history": vars(state.history),
        "waiting": [{"number": waiter.number, "level": waiter.level} for waiter in waiters],
    }


def _state_from_json(entries: Entries, arrays: Arrays, place: int, wide: int) -> StreamState:
    _require(type(entries["strict"]) is bool)
    state = StreamState(wide, strict=entries["strict"])
    families = 0
    if f"{place}.published.counts" in arrays:
        shown = _get(arrays, f"{place}.published", wide)
        behind = _get(arrays, f"{place}.behind", wide, least=0)  # nobody may be behind one shown
        _require(len(shown) == len(behind))
        state.published, families = Published(shown, behind), len(shown)
    state.groups = _get(arrays, f"{place}.groups", wide)
    _require(bool((state.groups.view().families < max(families, UNPUBLISHED + 1)).all()))
    state.history = _history(entries["history"], wide)
    state.seen = _whole(entries["seen"])
    return state


def _history(entries: Entries, wide: int) -> History:
    history = History(**entries)
    _whole(history.interval, 1)
    _whole(history.condensed)
    if history.total != []:
        _numbers(history.total, wide)
    for row in history.rows:
        _require(set(row) == {"seen", "groups", "waiting", "drift", "mean"})
        for name in ("seen", "groups", "waiting"):
            _whole(row[name])
        _numbers([row["drift"]], 1)
        _numbers(row["mean"], wide)
    return history


def _put(arrays: Arrays, prefix: str, groups: StreamGroups) -> None:
    for name, array in groups.view()._asdict().items():
        arrays[f"{prefix}.{name}"] = array


def _get(arrays: Arrays, prefix: str, wide: int, *, least: int = 1) -> StreamGroups:
    saved = GroupArrays._make(arrays[f"{prefix}.{name}"] for name in GroupArrays._fields)
    size = len(saved.counts)
    groups = StreamGroups(wide, capacity=max(64, size))
    groups.size = size
    for target, array in zip(groups.view(), saved, strict=True):
        _require(array.dtype == target.dtype and array.shape == target.shape)
        target[...] = array
    used = groups.view()
    check_reach(used.means)
    _require(bool(np.isfinite(used.scatters).all()))
    for whole in (used.counts, used.people, used.levels, used.level_sums):
        _require(bool((whole >= least).all() and (whole <= MOST**2).all()))
    _require(bool((used.people <= used.counts).all()))
    _require(bool((used.counts <= MOST).all() and (used.families >= UNPUBLISHED).all()))
    return groups


def _classes(entry: Entries | None) -> tuple[LabelSchema | None, list[Any]]:
    if entry is None:
        return None, [None]
    domain = series_from_json(entry)
    classes = domain.to_list()
    _require(domain.null_count() == 0 and len(set(classes)) == len(classes) > 0)
    return labels_of(*enter_column(domain)).schema, classes


def _ranges(saved: Any, wanted: int) -> list[Range] | None:
    if saved is None:
        return None
    ranges = [
        Range(*_pair([low, high]), None if pair is None else _pair(pair))
        for low, high, pair in saved
    ]
    _require(len(ranges) == wanted)
    return ranges


def _pair(values: Any) -> tuple[float, float]:
    low, high = _numbers(values, 2).tolist()
    return low, high


def _waiter(place: int, entries: Entries, seen: int) -> Entries:
    _require(entries["number"] < seen)
    number, level = _whole(entries["number"]), _whole(entries["level"], 1)
    return {"state": place, "number": number, "level": level}


def _waiting_arrays(fitted: Fitted) -> Arrays:
    """Return the waiting records of each class, in natural units."""
    aside = fitted.aside.rows
    arrays = {
        f"{place}.waiting": np.array([aside[waiter.number] for waiter in state.waiting.waiters])
        for place, state in enumerate(fitted.states.values())
        if len(state.waiting)
    }
    if fitted.newcomers:
        arrays["newcomers.waiting"] = np.array([p.record for p in fitted.newcomers.people])
        arrays["newcomers.unknown"] = _unknown_to_bytes(fitted.newcomers)
    return arrays


def _unknown_to_bytes(newcomers: Newcomers) -> NDArray[np.uint8]:
    """Return the values that records wait for, column by column, as bytes of JSON."""
    held: dict[str, list[tuple[int, Any]]] = {}
    for row, person in enumerate(newcomers.people):
        for name, value in person.unknown.items():
            held.setdefault(name, []).append((row, value))
    entries = {
        name: {
            "rows": [row for row, _ in pairs],
            "values": series_to_json(pl.Series(name, [value for _, value in pairs])),
        }
        for name, pairs in held.items()
    }
    return np.frombuffer(json.dumps(entries).encode(), dtype=np.uint8)


def _unknown_from_bytes(content: NDArray[Any], count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, entry in read_json(content.tobytes()).items():
        for row, value in zip(entry["rows"], series_from_json(entry["values"]), strict=True):
            found[_whole(row)][name] = value
    return found


def _people_arrays(fitted: Fitted) -> Arrays:
    """Return who is in which group, as hashes, and the secret behind them."""
    if fitted.persons is None:
        return {}
    arrays: Arrays = fitted.persons.to_arrays()
    for place, state in enumerate(fitted.states.values()):
        assert state.people is not None
        words = [waiter.person for waiter in state.waiting.waiters]
        parts = state.people.to_arrays() | {"waiting": np.array(words, dtype=np.int64)}
        arrays |= {f"{place}.people.{name}": array for name, array in parts.items()}
    return arrays


def _with_people(
    fitted: Fitted, entries: Entries, arrays: Arrays, waiting: list[list[Entries]]
) -> Fitted:
    """Return the fitted state with its people, and give each waiting record its person."""
    _require(isinstance(entries["column"], str) and entries["number"] in (None, True, False))
    for place, (state, waiters) in enumerate(zip(fitted.states.values(), waiting)):
        parts = {
            name: arrays[f"{place}.people.{name}"] for name in (*GroupMembers.PARTS, "waiting")
        }
        _require(all(array.dtype == np.int64 for array in parts.values()))
        _require(len(parts["lines"]) == len(state.groups) and len(parts["waiting"]) == len(waiters))
        state.count_people(GroupMembers.from_arrays(parts))
        for waiter, word in zip(waiters, parts["waiting"].tolist()):
            waiter["person"] = word
    return replace(fitted, persons=PersonHash.from_parts(entries, arrays))


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


# Values that a file claims to be something.


def _require(fits: bool) -> None:
    if not fits:
        raise ValueError


def _whole(value: Any, least: int = 0) -> int:
    _require(type(value) is int and least <= value < 2**63)
    return int(value)


def _numbers(values: Any, count: int) -> Floats:
    _require(isinstance(values, list) and len(values) == count)
    _require(all(type(value) in (int, float) and math.isfinite(value) for value in values))
    return np.array(values, dtype=float)


def _texts(values: Any) -> list[str]:
    _require(isinstance(values, list) and all(isinstance(value, str) for value in values))
    return list(values)


@contextmanager
def _refusing(origin: str) -> Iterator[None]:
    """Turn whatever a damaged or crafted file raises into one line without its values."""
    try:
        yield
    except (DataError, KeyMaterialError, OSError):
        raise
    except (Exception, pl.exceptions.PanicException):
        raise DataError(f"{origin} is not a saved stream, or it is damaged") from None


# The container: members of a zip that are stored uncompressed.


def to_bytes(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Serialize a header of JSON values and named arrays as one file."""
    buffer = io.BytesIO()
    _write(buffer, header, arrays)
    return buffer.getvalue()


def _write(file: BinaryIO, header: Mapping[str, Any], arrays: Arrays) -> None:
    members = {f"{name}.npy": _as_npy(array) for name, array in sorted(arrays.items())}
    entries = {"format": FORMAT, "version": VERSION, **header}
    entries["sha256"] = _digest(entries, members)
    members = {_HEADER: (json.dumps(entries).encode(),), **members}
    with zipfile.ZipFile(file, "w") as archive:
        for name, parts in members.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.file_size = sum(len(part) for part in parts)
            with archive.open(info, "w") as member:
                for part in parts:
                    member.write(part)


def from_bytes(content: bytes, *, origin: str) -> tuple[Entries, Arrays]:
    """Return header and arrays, after checking the format, the version and the digest."""
    with _refusing(origin):
        members = _members(content)
        header: Entries = read_json(members.pop(_HEADER))
        _require(header["format"] == FORMAT)
        if header["version"] != VERSION:
            raise DataError(
                f"{origin} was saved in another version of the format; this version of Tulle "
                f"reads version {VERSION}"
            )
        expected = header.pop("sha256")
        if _digest(header, {name: (member,) for name, member in members.items()}) != expected:
            raise DataError(f"{origin} is damaged: its digest does not match its content")
        return header, {
            name.removesuffix(".npy"): _from_npy(member) for name, member in members.items()
        }


def read_state(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file, if it is laid out as a state before any of it is read."""
    with _refusing(str(path)), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        _require(zipfile.is_zipfile(file))
        with zipfile.ZipFile(file) as archive:
            entries = _stored(archive, size)
            # a member has its name twice, and two headers of less than a hundred bytes
            members = sum(entry.file_size + 2 * len(entry.filename) + 200 for entry in entries)
            _require(size <= members + 200)
        file.seek(0)
        return file.read()


def _members(content: bytes) -> dict[str, bytes]:
    """Return all members of a zip that is no larger inside than outside."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = _stored(archive, len(content))
        return {entry.filename: archive.read(entry) for entry in entries}


def _stored(archive: zipfile.ZipFile, size: int) -> list[zipfile.ZipInfo]:
    """Return the members, if they are stored as they are and fit into the file."""
    entries = archive.infolist()
    _require(all(entry.compress_type == zipfile.ZIP_STORED for entry in entries))
    _require(sum(entry.file_size for entry in entries) <= size)
    return entries


def _as_npy(array: NDArray[Any]) -> Parts:
    """Return what ``numpy.save`` writes, without a copy of the array."""
    content = np.ascontiguousarray(array)
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, np.lib.format.header_data_from_array_1_0(content))
    return buffer.getvalue(), content.reshape(-1).view(np.uint8).data


def _from_npy(member: bytes) -> NDArray[Any]:
    """Return the array of a member, if it is as long as it claims: no more memory is allocated."""
    file = io.BytesIO(member)
    _require(np.lib.format.read_magic(file) == (1, 0))
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    _require(dtype.kind in "iuf")
    _require(math.prod(shape) * dtype.itemsize == len(member) - file.tell())
    flat = np.frombuffer(member, dtype=dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if by_columns else "C")


def _digest(header: Mapping[str, Any], members: Mapping[str, Parts]) -> str:
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, parts in sorted(members.items()):
        total.update(name.encode() + b"\0")
        for part in parts:
            total.update(part)
    return total.hexdigest()


def _seal(arrays: Arrays, key: SecretKey) -> NDArray[np.uint8]:
    """Encrypt arrays so that only the key opens them, as bytes."""
    content = to_bytes({}, arrays)
    return np.frombuffer(key.seal(content, _USE, _BOUND), dtype=np.uint8)


def _unseal(sealed: NDArray[np.uint8], key: SecretKey) -> Arrays:
    """Decrypt the arrays."""
    try:
        opened = key.unseal(sealed.tobytes(), _USE, _BOUND)
    except KeyMaterialError:
        raise KeyMaterialError("the waiting records were sealed with another key") from None
    return from_bytes(opened, origin="the sealed records")[1]
