"""What the sites agree on: the secret that turns tables into codes and results back."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NoReturn

from tulle.errors import DataError, KeyMaterialError, ParameterError, nearest_name
from tulle.keys import SecretKey
from tulle.sites.columns import Coded, Dropped, check_names, read_column
from tulle.sites.sealed import Lock, read_sealed, write_sealed

FORMAT = 1
_CONTENT = "site agreement"


class SiteAgreement:
    """The agreement of several sites on how their tables are coded.

    Make one with :meth:`create` (a schema and public ranges), :meth:`from_policy` or
    :meth:`from_summaries`; keep it with :meth:`save`, read it with :meth:`load`. It cannot be
    changed; :meth:`rotate` gives a new one.

    Parameters
    ----------
    columns
        The coded columns, in the order of the encoded table.
    key
        The secret that all aliases and secret cut points are derived from.
    generation
        Counts the rotations.
    previous
        The fingerprint of the agreement that this one replaces.

    Attributes
    ----------
    fingerprint : str
        Eight groups of hex digits that the sites compare by phone. Equal fingerprints mean equal
        agreements, secrets included; the fingerprint tells nothing about them.

    What may leave
    --------------
    The fingerprint and the file written by :meth:`save` (sealed: the passphrase or key file must
    travel another way). Nothing else: whoever holds the agreement can read every encoded table.

    Examples
    --------
    >>> from tulle import SiteAgreement
    >>> agreement = SiteAgreement.create(
    ...     {"age": "integer", "illness": "category", "smoker": "boolean"},
    ...     ranges={"age": (0, 120)},
    ... )
    >>> agreement
    SiteAgreement('...-...', 3 columns, generation 1)
    >>> len(agreement.fingerprint)
    39
    """

    def __init__(
        self,
        columns: Iterable[Coded],
        key: SecretKey,
        *,
        generation: int = 1,
        previous: str | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.generation = generation
        self.previous = previous
        self._key = key
        check_names(self.columns)
        self.fingerprint = self._fingerprint()

    @classmethod
    def create(
        cls,
        schema: Any,
        *,
        ranges: Mapping[str, tuple[Any, Any]] | None = None,
        cuts: str = "equal",
        groups: int = 5,
        limits: Mapping[str, Sequence[Any]] | None = None,
        values: Mapping[str, Sequence[int]] | None = None,
        alias: Collection[str] = (),
        categories: Mapping[str, Sequence[Any]] | None = None,
        other: Collection[str] = (),
        plain: Collection[str] = (),
        split: Mapping[str, float] | None = None,
        joint: Collection[tuple[str, str]] = (),
        key: SecretKey | None = None,
    ) -> SiteAgreement:
        """An agreement from a schema and what is public about it.

        Parameters
        ----------
        schema
            A policy, columns of a policy, or a mapping of names to kinds: ``integer``,
            ``decimal``, ``category``, ``boolean``, ``datetime``, ``text``. Columns with the role
            identifier, ignored or level do not go out.
        ranges
            The public range of each number or date: ``{"age": (0, 120)}``. Values outside it are
            refused or clamped when a table is encoded.
        cuts
            ``equal``: groups of equal width with secret ends and secret first number; the codes
            are a straight line, every miner finds the same. ``uneven``: secret cut points and
            secret steps; only miners that look at order (trees, rules over intervals) find the
            same, but a few known pairs tell less.
        groups
            The number of groups of each number or date (with equal cuts of whole numbers about
            as many: their width is a power of two, which makes codes exact in binary).
        limits, values
            Cut points and group numbers of single columns, given instead of drawn, as in the
            paper.
        alias
            Numbers and dates that are names rather than amounts (a ward, a postal code).
        categories
            Columns coded by a negotiated table: the union of their categories.
        other
            Columns of ``categories`` whose unforeseen values share one alias. It decodes to
            ``other``.
        plain
            Columns that need no treatment.
        split
            The share of the records that one alias has at most, but for the luck of the draw:
            frequent values get several aliases, up to 64. Hides frequencies; **changes mining
            results**.
        joint
            Pairs of columns that get one alias together. Hides the single marginals; the miner
            sees one attribute instead of two.
        key
            A key of your own; by default a new one.
        """
        from tulle.sites.agreeing import code_columns
        from tulle.sites.choices import Choices

        choices = Choices(
            ranges={} if ranges is None else ranges,
            cuts=cuts,
            groups=groups,
            limits={} if limits is None else limits,
            values={} if values is None else values,
            alias=alias,
            categories={} if categories is None else categories,
            other=other,
            plain=plain,
            split={} if split is None else split,
            joint=joint,
        )
        secret = SecretKey.generate() if key is None else key
        if not isinstance(secret, SecretKey):
            raise ParameterError("'key' must be a SecretKey")
        return cls(code_columns(schema, choices, secret), secret)

    @classmethod
    def from_summaries(cls, summaries: Iterable[Any], **choices: Any) -> SiteAgreement:
        """An agreement from what each site tells of its own table (see :class:`SiteSummary`).

        A summary holds names, kinds and rounded ranges, no list of categories.
        """
        from tulle.sites.summary import merge_summaries

        schema, ranges = merge_summaries(summaries)
        given = choices.pop("ranges", None) or {}
        return cls.create(schema, ranges={**ranges, **given}, **choices)

    @classmethod
    def from_policy(cls, path: str | os.PathLike[str], **choices: Any) -> SiteAgreement:
        """An agreement from a policy file: its columns, their bounds, and its section ``[sites]``.

        The section may hold every parameter of :meth:`create`; those given here come first, of
        ranges and other mappings column by column.
        """
        from tulle.sites.choices import OPTIONS, merged
        from tulle.tables.policy import load_policy

        policy = load_policy(path)
        return cls.create(policy, **merged(policy.options("sites", OPTIONS), choices))

    # -- the file -----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], lock: Lock, *, force: bool = False) -> None:
        """Writes the agreement, sealed by a passphrase or by the key of a key file (mode 0600)."""
        write_sealed(path, self._to_json(), _CONTENT, lock, force=force)

    @classmethod
    def load(cls, path: str | os.PathLike[str], lock: Lock) -> SiteAgreement:
        """Reads a sealed agreement with the passphrase or key that sealed it."""
        plain = read_sealed(path, _CONTENT, lock)
        try:
            entries = json.loads(plain)
            if entries["format"] != FORMAT:
                raise KeyMaterialError(
                    f"{path} holds an agreement of format {entries['format']}: this Tulle reads "
                    f"format {FORMAT}"
                )
            return cls(
                [read_column(column) for column in entries["columns"]],
                SecretKey(bytes.fromhex(entries["key"])),
                generation=int(entries["generation"]),
                previous=entries["previous"],
            )
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, KeyMaterialError):
                raise
            raise KeyMaterialError(f"{path} holds no agreement that Tulle can read") from None

    # -- new secrets --------------------------------------------------------------------------

    def rotate(self) -> SiteAgreement:
        """The same schema under a new key: other aliases, other secret cut points.

        Cut points and tables that were given, not drawn, stay. What was encoded under this
        agreement can still be decoded with it: keep its file.
        """
        return self._under(SecretKey.generate(), self.generation + 1)

    def for_release(self, label: str) -> SiteAgreement:
        """The agreement for one release: sites that use the same label get the same codes.

        Aliases of two labels have nothing in common, so that a miner who holds two releases
        cannot link them by these; numbers keep their order in both. Nothing needs to be exchanged.
        """
        return self._under(SecretKey(self._key.derive(f"sites/release/{label}")), self.generation)

    def _under(self, key: SecretKey, generation: int) -> SiteAgreement:
        from tulle.sites.agreeing import redraw

        columns = [redraw(column, key) for column in self.columns]
        return SiteAgreement(columns, key, generation=generation, previous=self.fingerprint)

    # -- what is in it ------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that an encoded table has."""
        return tuple(c.name for c in self.columns if not isinstance(c, Dropped))

    def __getitem__(self, name: str) -> Coded:
        for column in self.columns:
            if column.name == name:
                return column
        raise DataError(f"the agreement has no column '{name}': {nearest_name(name, self.names)}")

    def __contains__(self, name: object) -> bool:
        return any(column.name == name for column in self.columns)

    def describe(self) -> list[dict[str, Any]]:
        """One row a column: name, way, role; nothing secret."""
        return [
            {"column": c.name, "type": str(c.type), "role": str(c.role), "coded": c.in_words}
            for c in self.columns
        ]

    def keyed_id(self, digest: str) -> str:
        """A name for a table that says nothing without the key: the same table, the same name."""
        return blake2b(
            digest.encode(), key=self._key.derive("sites/table-id"), digest_size=16
        ).hexdigest()

    def _fingerprint(self) -> str:
        # the key is part of what is hashed and keys the hash: no guess at the content can be tried
        digits = blake2b(
            self._to_json(), key=self._key.derive("sites/fingerprint"), digest_size=16
        ).hexdigest()
        return "-".join(digits[start : start + 4] for start in range(0, 32, 4))

    def _to_json(self) -> bytes:
        entries = {
            "format": FORMAT,
            "generation": self.generation,
            "previous": self.previous,
            "key": self._key._secret.hex(),
            "columns": [column.to_dict() for column in self.columns],
        }
        return json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SiteAgreement) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return (
            f"SiteAgreement('{self.fingerprint}', {len(self.columns)} columns, "
            f"generation {self.generation})"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> SiteAgreement:
        return self

    def __reduce__(self) -> NoReturn:
        raise KeyMaterialError(
            "a SiteAgreement is never pickled: save it with agreement.save(path, passphrase)"
        )
