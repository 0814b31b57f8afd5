"""What scikit-learn expects of estimators that take any kind of table.

Its own base class would do, but costs a second to import (it loads SciPy's statistics and pandas),
which everybody who writes ``from tulle import Condenser`` would wait for.
"""

from __future__ import annotations

import inspect
from copy import deepcopy
from html import escape
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from sklearn.utils import Tags


class Estimator:
    """An estimator as scikit-learn knows it: parameters by name, shown where they are not usual."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the parameters of the constructor by name; ``deep`` adds those of an estimator."""
        own = {name: getattr(self, name) for name in _defaults(type(self))}
        nested = {n: v for n, v in own.items() if deep and hasattr(v, "get_params")}
        inner = {f"{n}__{name}": v for n, e in nested.items() for name, v in e.get_params().items()}
        return own | inner

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``condenser__k`` is the k of the parameter condenser."""
        known = _defaults(type(self))
        for full, value in params.items():
            name, _, inner = full.partition("__")
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {type(self).__name__}: "
                    f"valid parameters are {sorted(known)}."
                )
            if inner:
                getattr(self, name).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def cloned(self) -> Self:
        """Copy the parameters into a new estimator, as scikit-learn's ``clone`` does."""
        own = self.get_params(deep=False)
        copies = {
            n: v.cloned() if isinstance(v, Estimator) else deepcopy(v) for n, v in own.items()
        }
        return type(self)(**copies)

    def __repr__(self) -> str:
        usual = _defaults(type(self))
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if value is not usual[name] and repr(value) != repr(usual[name])
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        """Show in a notebook what the release rests on, as far as it is fitted: no cell of data."""
        if not hasattr(self, "groups_"):
            return f"<p><code>{escape(repr(self))}</code>, not fitted</p>"
        own: Any = self
        groups = own.groups_
        pieces = _flat(own.rests_on_)
        rows = [
            ("records condensed", f"{int(groups.counts.sum()):,}"),
            (
                "people in the smallest group",
                f"{int(groups.people.min(initial=groups.everybody)):,}",
            ),
            *((f"people behind each of: {name}", f"at least {n:,}") for name, n in pieces.items()),
            ("records withheld", f"{groups.suppressed:,}"),
            ("rules kept", f"{len(own.rules_):,}"),
        ]
        cells = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th><td>{value}</td></tr>'
            for name, value in rows
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in own.notes_)
        return f"<p><code>{escape(repr(self))}</code></p><table>{cells}</table><ul>{notes}</ul>"

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=None,
            regressor_tags=None,
            classifier_tags=None,
            input_tags=InputTags(),
        )


def _defaults(kind: type) -> dict[str, Any]:
    """Read the parameters of a constructor, in alphabetical order as scikit-learn has them."""
    known = inspect.signature(kind).parameters
    return {name: known[name].default for name in sorted(known)}


def _flat(pieces: dict[str, Any]) -> dict[str, int]:
    """Name what a release rests on; of several tables each piece has its table before it."""
    found: dict[str, int] = {}
    for name, people in pieces.items():
        if isinstance(people, dict):
            found |= {f"{name}, {piece}": n for piece, n in people.items()}
        else:
            found[name] = people
    return found


def check_is_fitted(estimator: Any, attribute: str) -> None:
    """Raise scikit-learn's error unless ``fit`` has set an attribute."""
    if not hasattr(estimator, attribute):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' with "
            "appropriate arguments before using this estimator."
        )


def note_features(estimator: Any, names: list[str], *, plain: bool) -> None:
    """Set ``n_features_in_``, and ``feature_names_in_`` where the table has names."""
    estimator.n_features_in_ = len(names)
    if not plain:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def takes_any_table(tags: Tags) -> Tags:
    """Tell scikit-learn that missing values, texts and categories are welcome."""
    tags.input_tags.allow_nan = True
    tags.input_tags.string = True
    tags.input_tags.categorical = True
    tags.non_deterministic = False
    return tags
