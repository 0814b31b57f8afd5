"""Condensers are estimators without loading scikit-learn, and show themselves in notebooks."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

from tulle import ClassCondenser, Condenser


def test_importing_a_condenser_loads_neither_scikit_learn_nor_scipy() -> None:
    asked = (
        "import sys; from tulle import ClassCondenser, Condenser;"
        "print([m for m in ('sklearn', 'scipy', 'pandas', 'pyarrow', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_parameters_of_the_condenser_inside_are_reached_by_name() -> None:
    outer = ClassCondenser(Condenser(k=7))
    assert outer.get_params()["condenser__k"] == 7
    assert "condenser__k" not in outer.get_params(deep=False)
    again = clone(outer.set_params(condenser__k=9))
    assert again.condenser.k == 9
    assert again.condenser is not outer.condenser
    with pytest.raises(ValueError, match="Invalid parameter 'size' for estimator Condenser"):
        Condenser().set_params(size=3)


def test_only_unusual_parameters_are_shown() -> None:
    assert repr(Condenser(k=10)) == "Condenser()"
    assert repr(Condenser(k=20, rules=[])) == "Condenser(k=20, rules=[])"


def test_a_notebook_shows_what_a_release_rests_on_and_no_cell() -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {"income": rng.normal(size=200), "town": ["<Bern>"] * 100 + ["Chur"] * 100}
    )
    assert "not fitted" in Condenser()._repr_html_()
    for fitted in (
        Condenser(k=20, random_state=0).fit(table),
        ClassCondenser(Condenser(k=20), random_state=0).fit(table.select("income"), table["town"]),
    ):
        shown = fitted._repr_html_()
        assert "at least 20" in shown
        assert "200" in shown
        assert "Bern" not in shown
        assert "Chur" not in shown
