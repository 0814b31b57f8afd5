"""The file of a stream's state: a zip of NumPy arrays and one JSON header.

``numpy.load`` and any zip reader open it; the checksums of a zip tell a damaged file. Statistics
only, but for one part that a key seals, or that is in it unencrypted, as the caller chooses: the
records that are held back, and hashes of people where these have several records.

Such a file may come from someone else. Members are stored, not compressed, so that no
file unfolds into more than its own size; every value is checked before a condenser takes it; and
whatever goes wrong is one line that holds no value of the file.
"""

from __future__ import annotations

import io
import json
import math
import os
import types
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields, is_dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    BinaryIO,
    NamedTuple,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._json import plain as as_plain
from tulle._json import read_json, series_from_json, series_to_json
from tulle._plurals import counted
from tulle._types import Floats, Ints
from tulle.condense._classes import LabelSchema, labels_of
from tulle.errors import DataError, KeyMaterialError
from tulle.keys import SecretKey
from tulle.stream._fitted import Fitted
from tulle.stream._groups import UNPUBLISHED, GroupArrays, StreamGroups
from tulle.stream._held import Held, HeldBack
from tulle.stream._people import GroupMembers, PersonHash
from tulle.stream._snapshots import BITS, Published, confined, draw, seen_ranges
from tulle.stream._state import History, StreamState, check_reach
from tulle.table._frames import enter_column
from tulle.table._numbers import NumberCodec
from tulle.table.schema import Column, ColumnsLike

if TYPE_CHECKING:
    from tulle.stream.condenser import StreamCondenser

FORMAT = "tulle-stream-state"
VERSION = 5
PARAMETERS = (
    "k",
    "init_size",
    "split",
    "grouping",
    "classwise",
    "synthesis",
    "rules",
    "weights",
    "scales",
)
MOST = 2**31 - 1  # members of a group: the index counts no further
_HEADER = "header.json"
_USE = "stream/waiting"
_BOUND = b"tulle-stream-waiting-v1"  # what a sealed part is bound to
_EPOCH = (1980, 1, 1, 0, 0, 0)  # no clock in the file: the same state is the same bytes
_APART = ("persons", "labels", "states", "held")  # fields of a stream that are saved by hand
Arrays = dict[str, NDArray[Any]]
Entries = dict[str, Any]
Place = str | os.PathLike[str] | io.BytesIO  # of a file


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


class _Vault(NamedTuple):
    """What is sealed: the records that are held back, and who is in which group."""

    rows: Floats
    numbers: Ints
    levels: Ints
    states: Ints  # the places of their classes
    persons: Ints
    unknown: dict[str, pl.Series]  # the values that records wait for, null in those that do not
    secret: NDArray[np.uint8]  # of the hashes of people
    known: Ints  # these hashes
    farthest: dict[str, tuple[Ints, Ints]]  # by column: pairs of hash and stretch on both sides
    members: list[tuple[Ints, Ints, Ints]]  # by class

    @classmethod
    def of(cls, fitted: Fitted) -> _Vault | None:
        """Collect it, if there is anything."""
        held, persons = fitted.held.records, fitted.persons
        if not held and persons is None:
            return None
        names = dict.fromkeys(name for one in held for name in one.unknown)
        places = list(fitted.states)

        def numbers(of: Callable[[Held], int]) -> Ints:
            return np.array([of(one) for one in held], dtype=np.int64)

        return cls(
            np.array([one.row for one in held]).reshape(len(held), len(fitted.location)),
            numbers(lambda one: one.number),
            numbers(lambda one: one.level),
            numbers(lambda one: places.index(one.label)),
            numbers(lambda one: one.person),
            {name: pl.Series(name, [one.unknown.get(name) for one in held]) for name in names},
            np.frombuffer(b"" if persons is None else persons.secret, dtype=np.uint8),
            np.array([] if persons is None else sorted(persons.known), dtype=np.int64),
            {} if persons is None else {n: _counted(f) for n, f in persons.farthest.items()},
            [one.people.to_arrays() for one in fitted.states.values() if one.people is not None],
        )


def _counted(sides: list[dict[int, int]]) -> tuple[Ints, Ints]:
    """Write how far people came, in an order that tells nothing of arrivals."""
    below, above = (np.array(sorted(s.items()), dtype=np.int64).reshape(-1, 2) for s in sides)
    return below, above


def write_state(
    file: BinaryIO,
    condenser: StreamCondenser,
    key: SecretKey | None,
    *,
    plain: bool = False,
    extra: Entries | None = None,
) -> None:
    """Write the state; what is private is sealed by the key, or ``plain`` in it."""
    fitted = condenser._fitted
    header, arrays = _fitted_to_parts(fitted)
    vault, sealed = _Vault.of(fitted), not plain
    if vault is not None:
        inside: Arrays = {}
        content = to_bytes({"vault": _saved(vault, inside, "vault")}, inside)
        if sealed:
            content = _require_key(key, vault).seal(content, _USE, _BOUND)
        arrays["private"] = np.frombuffer(content, dtype=np.uint8)
    header |= {
        "parameters": {name: as_plain(getattr(condenser, name)) for name in PARAMETERS},
        "columns": _columns_to_json(condenser.columns),
        "n_features": condenser.n_features_in_,
        "feature_names": as_plain(getattr(condenser, "feature_names_in_", None)),
        "sealed": sealed,
        "extra": extra or {},
    }
    _write(file, header, arrays)


def _require_key(key: SecretKey | None, vault: _Vault) -> SecretKey:
    if key is None:
        waiting = counted(len(vault.numbers), "waiting record")
        held = "hashes of people, and the secret behind them" if len(vault.secret) else waiting
        raise KeyMaterialError(
            f"the state holds {held}: pass a key to seal them, or waiting='plain' "
            "(--plain-waiting) to write them unencrypted"
        )
    return key


def load_state(
    cls: type[StreamCondenser], place: Place, key: SecretKey | None
) -> tuple[StreamCondenser, Entries]:
    """Read the condenser, and what was saved with it."""
    header, arrays = read_parts(place)
    with refusing(place):
        fitted = _fitted_from_parts(header, arrays, key)
        condenser = cls(**header["parameters"], columns=_columns_from_json(header["columns"]))
        condenser._continue(fitted)
        condenser._fresh_container = True  # which kind of table comes is not known yet
        condenser.n_features_in_ = _whole(header["n_features"], 1)
        names = restored(list[str] | None, header["feature_names"], {}, "")
        if names is not None:
            _require(names == fitted.names[: condenser.n_features_in_])
            condenser.feature_names_in_ = np.array(names, dtype=object)
        _require(isinstance(header["extra"], dict))
        _try_out(fitted)
    return condenser, header["extra"]


def _try_out(fitted: Fitted) -> None:
    """Draw one record and encode it again, so that defects of the codecs are found now."""
    rng = np.random.default_rng(0)
    first = [state.groups.taken(np.arange(1)) for state in fitted.states.values() if state.groups]
    if not first:
        return
    encoder = fitted.encoder
    forms, how = fitted.forms, "uniform"
    frame, _ = draw(encoder, fitted.units, first, forms, rng, distribution=how, n_samples=1)
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
    if isinstance(value, pl.Series):
        return series_to_json(value)
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        names = [part.name for part in fields(value)]
        return {name: _saved(getattr(value, name), arrays, f"{path}.{name}") for name in names}
    if hasattr(value, "_asdict"):
        return {n: _saved(entry, arrays, f"{path}.{n}") for n, entry in value._asdict().items()}
    if isinstance(value, dict):
        return {n: _saved(entry, arrays, f"{path}.{n}") for n, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_saved(entry, arrays, f"{path}.{at}") for at, entry in enumerate(value)]
    return value


def restored(hint: Any, entry: Any, arrays: Arrays, path: str) -> Any:
    """Return the value of a type that :func:`_saved` wrote, or raise if it is not of that type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return entry
    if origin is types.UnionType:
        return None if entry is None else restored(inner[0], entry, arrays, path)
    if origin is np.ndarray:
        _require(entry is None and arrays[path].dtype == get_args(inner[1])[0])
        return arrays[path]
    if origin is list or origin is tuple:
        _require(isinstance(entry, list) and (origin is list or len(entry) == len(inner)))
        kinds = inner if origin is tuple else inner * len(entry)
        places = enumerate(zip(kinds, entry))
        return origin(restored(kind, one, arrays, f"{path}.{at}") for at, (kind, one) in places)
    if origin is dict:
        return {n: restored(inner[1], one, arrays, f"{path}.{n}") for n, one in entry.items()}
    if hint is pl.Series:
        return series_from_json(entry)
    if hasattr(hint, "from_json"):
        return hint.from_json(entry)
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        hints = get_type_hints(hint)
        _require(set(entry) == set(hints))
        return hint(**{n: restored(hints[n], entry[n], arrays, f"{path}.{n}") for n in hints})
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
    if fitted.persons is not None:
        header["persons"] = [fitted.persons.column, fitted.persons.number]
    header["labels"] = None if labels is None else series_to_json(labels.of(places).domain)
    header["states"] = [
        _saved(_Class.of(state), arrays, str(place))
        for place, state in enumerate(fitted.states.values())
    ]
    return header, arrays


def _fitted_from_parts(header: Entries, arrays: Arrays, key: SecretKey | None) -> Fitted:
    hints = get_type_hints(Fitted)
    told = {n: restored(hints[n], header[n], arrays, n) for n in hints if n not in _APART}
    labels, classes = _labels(header["labels"])
    vault, persons = _opened(header["sealed"], arrays, key), None
    if "persons" in header:
        assert vault is not None  # people are private
        persons = PersonHash(header["persons"][0], vault.secret.tobytes(), header["persons"][1])
        persons.known = set(vault.known.tolist())
        sides = {name: [dict(s.tolist()) for s in pairs] for name, pairs in vault.farthest.items()}
        persons.farthest = sides
    held = HeldBack(each=1 if persons is None else 0)
    fitted = Fitted(**told, persons=persons, labels=labels, states={}, held=held)
    _check(fitted)
    for place, (label, entry) in enumerate(zip(classes, header["states"], strict=True)):
        state = fitted.state_of(label)
        restored(_Class, entry, arrays, str(place)).give(state)
        if persons is not None and vault is not None:
            state.people = GroupMembers.from_arrays(*vault.members[place])
            _require(len(state.people) == len(state.groups))
    if vault is not None:
        _hold(fitted, vault)
    _check_counts(fitted)
    return fitted


def _hold(fitted: Fitted, vault: _Vault) -> None:
    """Give a stream the records that it holds back."""
    labels, columns = list(fitted.states), vault.unknown.items()
    _require(vault.rows.shape == (len(vault.numbers), len(fitted.location)))
    check_reach(fitted.units.standard(vault.rows))
    _require(vault.unknown.keys() <= fitted.encoder.growing)
    told = zip(vault.rows, vault.levels, vault.numbers, vault.states, vault.persons, strict=True)
    for at, (row, level, number, place, person) in enumerate(told):
        _require(0 <= number < fitted.seen and level >= 1 and 0 <= place < len(labels))
        unknown = {name: values[at] for name, values in columns if values[at] is not None}
        kept = int(level), int(number), labels[place], int(person)
        fitted.held.records.append(Held(np.array(row), *kept, unknown))
    fitted.held.due(fitted.encoder)  # counts those who wait for a category


def _opened(sealed: bool, arrays: Arrays, key: SecretKey | None) -> _Vault | None:
    """Read what is private, if there is anything."""
    if "private" not in arrays:
        return None
    content = arrays["private"].tobytes()
    if sealed:
        if key is None:
            raise KeyMaterialError(
                "the records that wait in this state, or hashes of people, are sealed: pass the "
                "key (key=, --key)"
            )
        try:
            content = key.unseal(content, _USE, _BOUND)
        except KeyMaterialError:
            raise KeyMaterialError("the waiting records were sealed with another key") from None
    header, inside = read_parts(io.BytesIO(content))
    return cast(_Vault, restored(_Vault, header["vault"], inside, "vault"))


def _check(fitted: Fitted) -> None:
    """Raise if what was saved of a stream does not fit together."""
    scales, ranges = fitted.encoder.scales_, seen_ranges(fitted.encoder)
    _require(fitted.location.shape == scales.shape and fitted.seen >= 1)
    _require(bool(np.isfinite(fitted.location).all() and np.isfinite(scales).all()))
    _require(bool((scales > 0).all()))
    _require(all(math.isfinite(low) and math.isfinite(high) for low, high, _ in ranges))
    _require(fitted.shown_ranges is None or len(fitted.shown_ranges) == len(ranges))
    fitted.plan()
    _require({rule.target for rule in fitted.relations.rules} <= {None, *fitted.encoder.codecs})
    for name, form in fitted.forms.items():
        pieces = form.pieces
        _require(isinstance(fitted.encoder.codecs[name], NumberCodec) and form.least >= 1)
        same = (pieces.low, pieces.high, pieces.shares, pieces.cells, form.counts, form.shown)
        _require(len({array.shape for array in same}) == 1 and pieces.low.ndim == 1)
        _require(pieces.cuts.shape == (len(pieces.low) - 1,))
        bits = (form.bits, form.shown_bits)
        _require(len({part.shape for part in bits}) == 1 and form.bits.ndim == 2)
        _require(form.bits.shape[0] == len(pieces.low) and 1 <= form.bits.shape[1] <= 1 + BITS)
        _require(all(bool(((part >= 0) & (part <= part[:, :1])).all()) for part in bits))
        for array in (*same, pieces.cuts):
            _require(bool(np.isfinite(array).all()))
        _require(all(part.min() >= 0 and 0 < part.sum() < MOST for part in same[4:]))


def _check_counts(fitted: Fitted) -> None:
    """Raise if records are lost or counted twice."""
    for state in fitted.states.values():
        _require(state.seen == state.condensed + len(state.waiting))
    taken = sum(state.seen for state in fitted.states.values())
    _require(taken + len(fitted.held.for_category()) == fitted.seen)


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
def refusing(place: Place) -> Iterator[str]:
    """Turn whatever a damaged or crafted file raises into one line without its values."""
    origin = "the state" if isinstance(place, io.BytesIO) else str(place)
    try:
        yield origin
    except (DataError, KeyMaterialError, OSError):
        raise
    except (Exception, pl.exceptions.PanicException):
        raise DataError(f"{origin} is not a saved stream, or it is damaged") from None


# The container: members of a zip that are stored uncompressed.


def to_bytes(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    _write(buffer, header, arrays)
    return buffer.getvalue()


def _write(file: BinaryIO, header: Mapping[str, Any], arrays: Arrays) -> None:
    entries = {"format": FORMAT, "version": VERSION, **header}
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER, _EPOCH), json.dumps(entries))
        for name, array in sorted(arrays.items()):
            info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, (1, 0), allow_pickle=False)


def read_parts(place: Place) -> tuple[Entries, Arrays]:
    """Read header and arrays of a file that is no larger inside than outside."""
    with refusing(place) as origin, zipfile.ZipFile(place) as archive:
        members = archive.infolist()
        size = place.getbuffer().nbytes if isinstance(place, io.BytesIO) else os.path.getsize(place)
        _require(all(member.compress_type == zipfile.ZIP_STORED for member in members))
        around = size - sum(member.file_size for member in members)
        # a member has its name twice, and two headers of about a hundred bytes
        _require(0 <= around <= 200 + sum(2 * len(m.filename) + 250 for m in members))
        header: Entries = read_json(archive.read(_HEADER))
        _require(header["format"] == FORMAT)
        if header["version"] != VERSION:
            raise DataError(
                f"{origin} was saved in another version of the format; this version of Tulle "
                f"reads version {VERSION}"
            )
        names = [member.filename for member in members if member.filename != _HEADER]
        return header, {name.removesuffix(".npy"): _array(archive.read(name)) for name in names}


def _array(member: bytes) -> NDArray[Any]:
    """Read an array, if it is as long as it claims: no more memory is allocated."""
    file = io.BytesIO(member)
    _require(np.lib.format.read_magic(file) == (1, 0))
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    _require(dtype.kind in "iuf" and math.prod(shape) * dtype.itemsize == len(member) - file.tell())
    flat = np.frombuffer(member, dtype=dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if by_columns else "C")
