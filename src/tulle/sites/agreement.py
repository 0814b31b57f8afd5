"""What the sites agree on: the secret that turns tables into codes and results back."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NoReturn

from tulle._json import read_json
from tulle.errors import DataError, KeyMaterialError, ParameterError, nearest_name
from tulle.keys import SecretKey
from tulle.sites._choices import OPTIONS, Choices, code_columns, merged, redraw, wrong_choice
from tulle.sites._columns import Aliased, Coded, Dropped, check_names, read_column
from tulle.sites._sealed import Lock, read_sealed, write_sealed
from tulle.sites._values import text_of

FORMAT = 1
_CONTENT = "site agreement"


class SiteAgreement:
    """Agree among several sites on how their tables are coded.

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
    travel another way). Nothing else: anyone who has the agreement can read every encoded table.

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
        # the key is part of what is hashed and keys the hash: no guess at the content can be tried
        digits = blake2b(
            self._to_json(), key=key.derive("sites/fingerprint"), digest_size=16
        ).hexdigest()
        self.fingerprint = "-".join(digits[start : start + 4] for start in range(0, 32, 4))

    @classmethod
    def create(cls, schema: Any, *, key: SecretKey | None = None, **choices: Any) -> SiteAgreement:
        """Create an agreement from a schema and what is public about it.

        Parameters
        ----------
        schema : Policy, sequence of Column, or mapping of str to kind
            The columns; kinds are ``integer``, ``decimal``, ``category``, ``boolean``, ``datetime``
            and ``text``. Columns with the role identifier, ignored or level do not go out.
        key : SecretKey, optional
            A key of your own; by default a new one.
        **choices
            What the sites choose for their columns:

            - ``ranges``: the public range of each number or date, ``{"age": (0, 120)}``. Values
              outside it are refused or clamped when a table is encoded.
            - ``cuts``: ``"equal"`` (groups of equal width with secret ends and secret first number;
              the codes are a straight line, every miner finds the same) or ``"uneven"`` (secret cut
              points and secret steps; only miners that look at order, such as trees and rules over
              intervals, find the same, but a few known pairs reveal less).
            - ``groups``: the number of groups of each number or date, 5 by default.
            - ``limits``, ``values``: cut points and group numbers of single columns, given instead
              of drawn, as in the paper.
            - ``alias``: numbers and dates that are names rather than amounts (a ward, a postal
              code).
            - ``categories``: columns coded by a negotiated table, the union of their categories.
            - ``other``: columns of ``categories`` whose unforeseen values share one alias, which
              decodes to ``other``.
            - ``plain``: columns that are left unchanged.
            - ``split``: the largest share of the records that one alias may have, but for the luck
              of the draw: frequent values get several aliases, up to 64. Hides frequencies;
              **changes mining results**.
            - ``match``: the column that says who somebody is, where the sites hold other columns
              of the same people. It goes out as a keyed pseudonym, and
              :func:`tulle.match_people` joins the tables by it.

        Returns
        -------
        SiteAgreement

        Raises
        ------
        ParameterError
            If a choice has the wrong shape, names a column that is not there, or contradicts
            another.
        """
        secret = SecretKey.generate() if key is None else key
        if not isinstance(secret, SecretKey):
            raise wrong_choice("key", "must be a SecretKey")
        return cls(code_columns(schema, Choices.of(choices), secret), secret)

    @classmethod
    def from_summaries(cls, summaries: Iterable[Any], **choices: Any) -> SiteAgreement:
        """Create an agreement from the summaries of the sites' tables.

        Parameters
        ----------
        summaries : iterable of SiteSummary
            One from each site: names, kinds and rounded ranges, no list of categories. All sites
            have the same columns, or, with ``match``, that one in common and no other.
        **choices
            Further parameters of :meth:`create`.

        Returns
        -------
        SiteAgreement
        """
        from tulle.sites.summary import merge_summaries

        schema, ranges = merge_summaries(summaries, choices.get("match"))
        given = choices.pop("ranges", None) or {}
        return cls.create(schema, ranges={**ranges, **given}, **choices)

    @classmethod
    def from_policy(cls, path: str | os.PathLike[str], **choices: Any) -> SiteAgreement:
        """Create an agreement from a policy file: its columns, bounds and section ``[sites]``.

        Parameters
        ----------
        path : path-like
            The policy file. Its section ``[sites]`` may hold every parameter of :meth:`create`.
        **choices
            Parameters of :meth:`create` that take precedence over the file; ranges and other
            mappings are merged column by column.

        Returns
        -------
        SiteAgreement
        """
        from tulle.table.policy import load_policy

        policy = load_policy(path)
        return cls.create(policy, **merged(policy.options("sites", OPTIONS), choices))

    # -- the file -----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], lock: Lock, *, force: bool = False) -> None:
        """Write the agreement, sealed by a passphrase or by the key of a key file (mode 0600).

        Parameters
        ----------
        path : path-like
            The file to create.
        lock : str or SecretKey
            The passphrase or key that will open it.
        force : bool
            Replace a file that exists.
        """
        write_sealed(path, self._to_json(), _CONTENT, lock, force=force)

    @classmethod
    def load(cls, path: str | os.PathLike[str], lock: Lock) -> SiteAgreement:
        """Read a sealed agreement with the passphrase or key that sealed it.

        Parameters
        ----------
        path : path-like
            The file that :meth:`save` wrote.
        lock : str or SecretKey
            The passphrase or key that sealed it.

        Returns
        -------
        SiteAgreement

        Raises
        ------
        KeyMaterialError
            If the lock does not open the file.
        """
        return cls._from_json(read_sealed(path, _CONTENT, lock), str(path))

    @classmethod
    def _from_json(cls, plain: bytes, origin: str) -> SiteAgreement:
        try:
            entries = read_json(plain)
            if entries["format"] != FORMAT:
                raise KeyMaterialError(
                    f"{origin} holds an agreement of format {entries['format']}: this version of "
                    f"Tulle reads format {FORMAT}"
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
            raise KeyMaterialError(
                f"{origin} does not contain an agreement that Tulle can read"
            ) from None

    # -- new secrets --------------------------------------------------------------------------

    def rotate(self, categories: Mapping[str, Collection[Any]] | None = None) -> SiteAgreement:
        """Create the same schema under a new key: other aliases, other secret cut points.

        Cut points and tables that were given, not drawn, stay. What was encoded under this
        agreement can still be decoded with it: keep its file.

        Parameters
        ----------
        categories : mapping of str to collection, optional
            Columns with keyed aliases that get a table from now on: all their categories.

        Returns
        -------
        SiteAgreement
        """
        tables = dict(categories or {})
        for name in tables:
            column = self[name]
            if not isinstance(column, Aliased) or column.split:
                raise ParameterError(f"column '{name}' is not coded by one alias for each value")
        columns = [
            replace(column, categories=tuple(sorted(map(text_of, tables[column.name]))))
            if isinstance(column, Aliased) and column.name in tables
            else column
            for column in self.columns
        ]
        return self._under(SecretKey.generate(), self.generation + 1, columns)

    def for_release(self, label: str) -> SiteAgreement:
        """Derive the agreement for one release; sites that use the same label get the same codes.

        Aliases of two labels have nothing in common, so that a miner who holds two releases
        cannot link them by these; numbers keep their order in both. Nothing needs to be exchanged.

        Parameters
        ----------
        label : str
            The name of the release.

        Returns
        -------
        SiteAgreement
        """
        return self._under(SecretKey(self._key.derive(f"sites/release/{label}")), self.generation)

    def _under(
        self, key: SecretKey, generation: int, columns: Iterable[Coded] | None = None
    ) -> SiteAgreement:
        drawn = [redraw(column, key) for column in columns or self.columns]
        return SiteAgreement(drawn, key, generation=generation, previous=self.fingerprint)

    # -- what is in it ------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of an encoded table."""
        return tuple(c.name for c in self.columns if not isinstance(c, Dropped))

    def __getitem__(self, name: str) -> Coded:
        for column in self.columns:
            if column.name == name:
                return column
        raise DataError(f"the agreement has no column '{name}': {nearest_name(name, self.names)}")

    def __contains__(self, name: object) -> bool:
        return any(column.name == name for column in self.columns)

    def describe(self) -> list[dict[str, Any]]:
        """List the columns with their coding and role; nothing secret.

        Returns
        -------
        list of dict
            One row per column.
        """
        return [
            {"column": c.name, "type": c.type, "role": str(c.role), "coded": c.in_words}
            for c in self.columns
        ]

    def keyed_id(self, digest: str) -> str:
        """Return a name for a table that reveals nothing without the key.

        Parameters
        ----------
        digest : str
            The digest of the table; the same digest gives the same name.

        Returns
        -------
        str
        """
        return blake2b(
            digest.encode(), key=self._key.derive("sites/table-id"), digest_size=16
        ).hexdigest()

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
            "a SiteAgreement cannot be pickled: save it with agreement.save(path, passphrase)"
        )
