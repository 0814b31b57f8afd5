"""Rotation and random projection: new columns that keep distances and mean nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._checks import check_int, check_real
from tulle._random import RandomState, as_generator
from tulle._types import Floats
from tulle.table._encoder import TableEncoder
from tulle.table._frames import enter
from tulle.table.schema import ColumnsLike, Role, Schema


class Rotated(NamedTuple):
    """A rotated table.

    ``release`` is the table of new columns, row for row; ``matrix`` is the secret
    map, for the owner.
    """

    release: Any
    matrix: Floats


def rotate(
    X: Any,
    components: int | None = None,
    *,
    noise: float = 0.0,
    columns: ColumnsLike | None = None,
    random_state: RandomState = None,
) -> Rotated:
    """Rotate standardised records at random, or project them onto fewer random directions.

    A rotation keeps all distances, so that whatever compares records by distance (nearest
    neighbours, k-means, support vector machines) finds the same. A projection keeps them about.
    Someone who knows as many records as there are columns can undo a rotation without noise.

    Parameters
    ----------
    X : DataFrame (pandas, polars), pyarrow Table, array or list of rows
        The table. Categories become indicators; every column has the variance 1.
    components : int, optional
        How many random directions; by default a rotation of all dimensions.
    noise : float
        The standard deviation of noise that is added to the new columns.
    columns : sequence of :class:`~tulle.table.schema.Column`, or mapping
        What a policy says of the columns; identifiers are left out, the target stays as it is.
    random_state : int, Generator, RandomState or None
        None takes the operating system's entropy.

    Returns
    -------
    Rotated
        ``release`` with the columns ``c1``, ``c2``, ... and ``matrix``.

    Examples
    --------
    >>> import numpy as np
    >>> from tulle import rotate
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> new = rotate(X, random_state=0).release
    >>> old = (X - X.mean(axis=0)) / X.std(axis=0)
    >>> bool(np.allclose(np.linalg.norm(new[0] - new[1]), np.linalg.norm(old[0] - old[1])))
    True
    """
    check_real("rotate", "noise", noise, 0)
    if components is not None:
        check_int("rotate", "components", components, 1)
    frame, exit = enter(X)
    names = frame.columns if exit.plain else ()
    _, matrix, targets = _standardised(frame, columns, names)
    matrix = matrix - matrix.mean(axis=0)
    rng, width = as_generator(random_state), matrix.shape[1]
    if components is None:  # any rotation as likely as any other
        found, triangle = np.linalg.qr(rng.normal(size=(width, width)))
        turn = np.asarray(found * np.sign(np.diag(triangle)))
    else:  # directions that keep lengths on average
        turn = rng.normal(size=(width, components)) / np.sqrt(components)
    turned = matrix @ turn
    if noise:
        turned += rng.normal(0, noise, turned.shape)
    names = [f"c{number}" for number in range(1, turned.shape[1] + 1)]
    released = pl.DataFrame(turned, schema=names).with_columns(frame[name] for name in targets)
    return Rotated(exit.leave(released), turn)


def _standardised(
    frame: pl.DataFrame, columns: ColumnsLike | None, names: Sequence[str] = ()
) -> tuple[TableEncoder, Floats, list[str]]:
    """Return the encoder, the records as numbers of variance 1, and the names of the targets."""
    schema = Schema.of(columns, frame)
    targets = schema.named(Role.TARGET)
    features = Schema(column for column in schema if column.role is not Role.TARGET)
    encoder = TableEncoder(features).fit(frame.drop(targets), names)
    return encoder, encoder.encode(frame.drop(targets)) / encoder.scales_, targets


def turned_back(
    frame: pl.DataFrame,
    release: pl.DataFrame,
    columns: ColumnsLike | None,
    rng: np.random.Generator,
) -> pl.DataFrame:
    """Return what someone makes of a rotated table who knows twice as many records as dimensions.

    The new columns mean nothing: what can be attacked is the table turned back by least squares.
    """
    encoder, matrix, targets = _standardised(frame, columns)
    middle, new = matrix.mean(axis=0), release.drop(targets).to_numpy()
    known = rng.permutation(len(matrix))[: 2 * matrix.shape[1]]
    back = new @ np.linalg.lstsq(new[known], matrix[known] - middle, rcond=1e-9)[0] + middle
    return encoder.decode(back * encoder.scales_).with_columns(frame[name] for name in targets)
