"""The file of a stream's state: a zip of NumPy arrays and one JSON header, with a digest.

``numpy.load`` and any zip reader open it. ``header.json`` names the format and its version and
holds the SHA-256 over everything else, so that a damaged file is refused. Statistics only: records
that are held back are in it unencrypted, sealed by a key, or not at all, as the caller chooses. So
are hashes of people, where these have several records, except that they cannot be left out.

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
import types
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._json import plain, read_json, series_from_json, series_to_json
from tulle._types import Floats
from tulle.condense._classes import LabelSchema, labels_of
from tulle.errors import DataError, KeyMaterialError
from tulle.keys import SecretKey
from tulle.stream._batches import Batch
from tulle.stream._fitted import Fitted
from tulle.stream._groups import UNPUBLISHED, GroupArrays, StreamGroups
from tulle.stream._held import Held, HeldBack
from tulle.stream._people import GroupMembers, PersonHash
from tulle.stream._snapshots import Published, confined, draw, seen_ranges
from tulle.stream._state import History, StreamState, check_reach
from tulle.table._frames import enter_column
from tulle.table.schema import Column, ColumnsLike

if TYPE_CHECKING:
    from tulle.stream.condenser import StreamCondenser

FORMAT = "tulle-stream-state"
VERSION = 2
PARAMETERS = ("k", "init_size", "split", "grouping", "classwise", "synthesis", "weights", "scales")
MOST = 2**31 - 1  # members of a group: the index counts no further
_HEADER = "header.json"
_USE = "stream/waiting"
_BOUND = b"tulle-stream-waiting-v1"  # what a sealed part is bound to
_EPOCH = (1980, 1, 1, 0, 0, 0)  # no clock in the file: the same state is the same bytes
_APART = ("persons", "labels", "states", "held")  # fields of a stream that are saved by hand
Arrays = dict[str, NDArray[Any]]
Entries = dict[str, Any]
Parts = tuple[bytes | memoryview, ...]  # of a member


class _Class(NamedTuple):
    """What is saved of the groups of a class."""

    seen: int
    history: History
    groups: GroupArrays
    shown: GroupArrays | None
    behind: GroupArrays | None

    @classmethod
    def of(cls, state: StreamState) -> _Class:
        """Return the parts of a class; the published ones if there was a snapshot."""
        told = state.published
        shown = (None, None) if told is None else (told.shown.view(), told.behind.view())
        return cls(state.seen, state.history, state.groups.view(), *shown)

    def give(self, state: StreamState) -> None:
        """Check all parts, and give them to a class that has none yet."""
        wide, families = state.groups.dimensions, 0
        if self.shown is not None and self.behind is not None:
            # nobody may be behind one shown
            parts = _groups(self.shown, wide), _groups(self.behind, wide, least=0)
            _require(len(parts[0]) == len(parts[1]))
            state.published, families = Published(*parts), len(parts[0])
        state.groups = _groups(self.groups, wide)
        _require(bool((state.groups.view().families < max(families, UNPUBLISHED + 1)).all()))
        history = self.history
        _require(history.interval >= 1 and len(history.total) in (0, wide))
        _require(all(len(row.mean) == wide for row in history.rows))
        state.history, state.seen = history, self.seen


class _Owed(NamedTuple):
    """What a state says of a record that it holds back, wherever the record itself is."""

    state: int  # the place of its class
    number: int
    level: int
    newcomer: bool  # it waits for a category


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
    header, arrays = _fitted_to_parts(fitted)
    private = _private(fitted)
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
        fitted, owed = _fitted_from_parts(header, arrays, key)
        condenser = cls(**header["parameters"], columns=_columns_from_json(header["columns"]))
        condenser._continue(fitted)
        condenser._fresh_container = True  # which kind of table comes is not known yet
        condenser.n_features_in_ = _whole(header["n_features"], 1)
        names = _restored(list[str] | None, header["feature_names"], {}, "")
        if names is not None:
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
    _hold(fitted, owed, matrix, unknown, [waiter["number"] for waiter in owed])


def _hold(
    fitted: Fitted,
    owed: list[Entries],
    matrix: Floats,
    unknown: list[dict[str, Any]],
    persons: list[int],
) -> None:
    """Put records back that were held back."""
    labels = list(fitted.states)
    told = zip(owed, matrix, unknown, persons, strict=True)
    for waiter, row, values, person in told:
        _require(bool(values) == waiter["newcomer"] and values.keys() <= fitted.encoder.growing)
        kept = waiter["level"], waiter["number"], labels[waiter["state"]], person
        fitted.held.records.append(Held(np.array(row), *kept, values))
    fitted.held.due(fitted.encoder)  # counts those who wait for a category


def _try_out(fitted: Fitted) -> None:
    """Draw one record and encode it again, so that defects of the codecs are found now."""
    rng = np.random.default_rng(0)
    first = [state.groups.taken(np.arange(1)) for state in fitted.states.values() if state.groups]
    if not first:
        return
    encoder = fitted.encoder
    frame, _ = draw(encoder, fitted.units, first, rng, distribution="uniform", n_samples=1)
    if fitted.shown_ranges is not None:
        confined(encoder, fitted.shown_ranges)
    fitted.border.leave(frame)
    if not encoder.problems(frame):
        deepcopy(encoder).widen(encoder.encode(frame))


# What was fitted as JSON values and arrays, and back. The type of a field says how it is written.


def _saved(value: Any, arrays: Arrays, path: str) -> Any:
    """Return a value as JSON; arrays inside of it go among the arrays, under their path."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return None
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        names = [part.name for part in fields(value)]
        return {name: _saved(getattr(value, name), arrays, f"{path}.{name}") for name in names}
    if hasattr(value, "_asdict"):
        return {n: _saved(entry, arrays, f"{path}.{n}") for n, entry in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_saved(entry, arrays, f"{path}.{at}") for at, entry in enumerate(value)]
    return value


def _restored(hint: Any, entry: Any, arrays: Arrays, path: str) -> Any:
    """Return the value of a type that :func:`_saved` wrote, or raise if it is not of that type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is types.UnionType:
        return None if entry is None else _restored(inner[0], entry, arrays, path)
    if origin is np.ndarray:
        _require(entry is None and arrays[path].dtype == get_args(inner[1])[0])
        return arrays[path]
    if origin is list or origin is tuple:
        _require(isinstance(entry, list) and (origin is list or len(entry) == len(inner)))
        kinds = inner if origin is tuple else inner * len(entry)
        places = enumerate(zip(kinds, entry))
        return origin(_restored(kind, one, arrays, f"{path}.{at}") for at, (kind, one) in places)
    if hasattr(hint, "from_json"):
        return hint.from_json(entry)
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        hints = get_type_hints(hint)
        _require(set(entry) == set(hints))
        return hint(**{n: _restored(hints[n], entry[n], arrays, f"{path}.{n}") for n in hints})
    if hint is float:
        _require(type(entry) in (int, float) and math.isfinite(entry))
        return float(entry)
    _require(type(entry) is hint and (hint is not int or 0 <= entry < 2**63))
    return entry


def _fitted_to_parts(fitted: Fitted) -> tuple[Entries, Arrays]:
    """Return everything but what is private: held records, and people."""
    arrays: Arrays = {}
    header = {
        part.name: _saved(getattr(fitted, part.name), arrays, part.name)
        for part in fields(fitted)
        if part.name not in _APART
    }
    labels, places = fitted.labels, list(fitted.states)
    header["persons"] = None if fitted.persons is None else fitted.persons.to_json()
    header["labels"] = None if labels is None else series_to_json(labels.of(places).domain)
    header["states"] = [
        _saved(_Class.of(state), arrays, str(place))
        for place, state in enumerate(fitted.states.values())
    ]
    header["held"] = [
        _Owed(places.index(held.label), held.number, held.level, bool(held.unknown))._asdict()
        for held in fitted.held.records
    ]
    return header, arrays


def _fitted_from_parts(
    header: Entries, arrays: Arrays, key: SecretKey | None
) -> tuple[Fitted, list[Entries]]:
    """Return the fitted state with the file's held records, and those the file leaves out."""
    hints = get_type_hints(Fitted)
    told = {n: _restored(hints[n], header[n], arrays, n) for n in hints if n not in _APART}
    labels, classes = _labels(header["labels"])
    private = arrays
    if "sealed" in arrays and key is not None:
        private = _unseal(arrays["sealed"], key)
    persons, held = None, HeldBack()
    if header["persons"] is not None:
        _require("secret" in private or "sealed" in arrays)
        if "secret" not in private:
            raise KeyMaterialError("the people of the stream are sealed: pass the key")
        persons, held = PersonHash.from_parts(header["persons"], private), HeldBack(each=0)
    fitted = Fitted(**told, persons=persons, labels=labels, states={}, held=held)
    _check(fitted)
    for place, (label, entry) in enumerate(zip(classes, header["states"], strict=True)):
        state = fitted.state_of(label)
        _restored(_Class, entry, arrays, str(place)).give(state)
        if persons is not None:
            parts = {name: private[f"{place}.people.{name}"] for name in GroupMembers.PARTS}
            _require(all(array.dtype == np.int64 for array in parts.values()))
            state.people = GroupMembers.from_arrays(parts)
            _require(len(state.people) == len(state.groups))
    owed = [_owed(entry, fitted) for entry in header["held"]]
    _check_counts(fitted, owed)
    if "held.rows" not in private:
        return fitted, owed
    rows = private["held.rows"]
    _require(rows.shape == (len(owed), len(fitted.location)) and rows.dtype == np.float64)
    check_reach(fitted.units.standard(rows))
    unknown = _unknown_from_bytes(private.get("held.unknown"), len(rows))
    _hold(fitted, owed, rows, unknown, private["held.persons"].astype(np.int64).tolist())
    return fitted, []


def _owed(entry: Entries, fitted: Fitted) -> Entries:
    """Return what a state says of a record that it holds back."""
    told = _restored(_Owed, entry, {}, "")
    _require(told.state < len(fitted.states) and told.number < fitted.seen and told.level >= 1)
    return dict(told._asdict())


def _check(fitted: Fitted) -> None:
    """Raise if what was saved of a stream does not fit together."""
    scales, ranges = fitted.encoder.scales_, seen_ranges(fitted.encoder)
    _require(fitted.location.shape == scales.shape and fitted.seen >= 1)
    _require(bool(np.isfinite(fitted.location).all() and np.isfinite(scales).all()))
    _require(bool((scales > 0).all()))
    _require(all(math.isfinite(low) and math.isfinite(high) for low, high, _ in ranges))
    _require(fitted.shown_ranges is None or len(fitted.shown_ranges) == len(ranges))


def _check_counts(fitted: Fitted, owed: list[Entries]) -> None:
    """Raise if records are lost or counted twice."""
    waiting = [0] * len(fitted.states)
    for waiter in owed:
        waiting[waiter["state"]] += not waiter["newcomer"]
    for state, count in zip(fitted.states.values(), waiting):
        _require(state.seen == state.condensed + count)
    taken = sum(state.seen for state in fitted.states.values())
    _require(taken + len(owed) - sum(waiting) == fitted.seen)


def _groups(saved: GroupArrays, wide: int, *, least: int = 1) -> StreamGroups:
    size = len(saved.counts)
    groups = StreamGroups(wide, capacity=max(64, size))
    groups.size = size
    for target, array in zip(groups.view(), saved, strict=True):
        _require(array.shape == target.shape)
        target[...] = array
    used = groups.view()
    check_reach(used.means)
    _require(bool(np.isfinite(used.scatters).all()))
    for whole in (used.counts, used.people, used.levels, used.level_sums):
        _require(bool((whole >= least).all() and (whole <= MOST**2).all()))
    _require(bool((used.people <= used.counts).all()))
    _require(bool((used.counts <= MOST).all() and (used.families >= UNPUBLISHED).all()))
    return groups


def _labels(entry: Entries | None) -> tuple[LabelSchema | None, list[Any]]:
    if entry is None:
        return None, [None]
    domain = series_from_json(entry)
    classes = domain.to_list()
    _require(domain.null_count() == 0 and len(set(classes)) == len(classes) > 0)
    return labels_of(*enter_column(domain)).schema, classes


def _private(fitted: Fitted) -> Arrays:
    """Return the records that are held back, and who is in which group, as hashes."""
    arrays: Arrays = {}
    if held := fitted.held.records:
        arrays["held.rows"] = np.array([one.row for one in held])
        arrays["held.persons"] = np.array([one.person for one in held], dtype=np.int64)
    if fitted.held.for_category():
        arrays["held.unknown"] = _unknown_to_bytes(held)
    if fitted.persons is not None:
        arrays |= fitted.persons.to_arrays()
        for place, state in enumerate(fitted.states.values()):
            assert state.people is not None
            parts = state.people.to_arrays().items()
            arrays |= {f"{place}.people.{name}": array for name, array in parts}
    return arrays


def _unknown_to_bytes(held: list[Held]) -> NDArray[np.uint8]:
    """Return the values that records wait for, column by column, as bytes of JSON."""
    pairs: dict[str, list[tuple[int, Any]]] = {}
    for row, one in enumerate(held):
        for name, value in one.unknown.items():
            pairs.setdefault(name, []).append((row, value))
    entries = {
        name: {
            "rows": [row for row, _ in found],
            "values": series_to_json(pl.Series(name, [value for _, value in found])),
        }
        for name, found in pairs.items()
    }
    return np.frombuffer(json.dumps(entries).encode(), dtype=np.uint8)


def _unknown_from_bytes(content: NDArray[Any] | None, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    entries = {} if content is None else read_json(content.tobytes())
    for name, entry in entries.items():
        for row, value in zip(entry["rows"], series_from_json(entry["values"]), strict=True):
            found[_whole(row)][name] = value
    return found


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
