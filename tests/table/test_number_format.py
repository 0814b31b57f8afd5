"""Numbers are read in full and written back the same way, whatever form they have."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tulle.table._number_format import NumberFormat, read_numbers

separators = st.sampled_from(
    [("", "."), ("", ","), (",", "."), (".", ","), (" ", ","), ("'", "."), ("\u202f", ",")]
)
marks = st.sampled_from([("", ""), ("", " €"), ("$", ""), ("", "%"), ("CHF ", ""), ("", " kg")])


@st.composite
def formats(draw):
    prefix, suffix = draw(marks)
    thousands, decimal = draw(separators)
    decimals = draw(st.sampled_from([None, 0, 1, 2, 3]))
    negative = draw(st.sampled_from(["-1", "(1)", "1-"]))
    return NumberFormat(prefix, suffix, thousands, decimal, decimals, negative)


numbers = st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20)


@given(formats(), numbers)
def test_a_form_reads_what_it_writes(form, whole):
    digits = 2 if form.decimals is None else form.decimals
    values = pl.Series([value / 10**digits for value in whole])
    texts = form.format(values)
    assert form.parse(texts).to_list() == pytest.approx(values.to_list())
    assert form.format(form.parse(texts)).to_list() == texts.to_list()


@pytest.mark.slow
@given(formats(), numbers)
def test_what_is_read_is_written_back_identically(form, whole):
    assume(not (form.suffix == "%" and form.negative == "1-"))
    digits = 2 if form.decimals is None else form.decimals
    texts = form.format(pl.Series([value / 10**digits for value in whole]))
    reading = read_numbers(texts)
    if reading.other_forms:
        return  # few values may look like two forms; then they are counted
    assert reading.format.format(reading.values).to_list() == texts.to_list()


def test_a_form_survives_the_policy():
    for form in (
        NumberFormat("", " €", ".", ",", 2),
        NumberFormat(),
        NumberFormat("", "%", "", ".", 0),
    ):
        assert NumberFormat.from_example(form.example) == form


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1.360", "980", "12.400"], [1360, 980, 12400]),  # thousands
        (["1.234", "5.678"], [1.234, 5.678]),  # decimals
        (["1,5", "1.234,5", "12"], [1.5, 1234.5, 12]),
        (["12 kg", "3 kg", "5"], [12, 3, 5]),
        (["(3.00)", "$5.00"], [-3, 5]),
    ],
)
def test_separators_are_told_by_all_values(texts, values):
    assert read_numbers(pl.Series(texts)).values.to_list() == values


@pytest.mark.parametrize("texts", [["01067", "04109"], ["A11", "A12"], ["+49 30"], ["1a", "2b"]])
def test_codes_are_not_numbers(texts):
    assert read_numbers(pl.Series(texts)) is None


def test_mixed_forms_are_counted():
    reading = read_numbers(pl.Series(["1.360,00 €", "5,00 €", "7,00", "k.A."]))
    assert reading.other_forms == 1
    assert reading.values.to_list() == [1360, 5, 7, None]
