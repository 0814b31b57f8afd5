"""What the columns of a table are taken for."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.columns_hospital import LABELS, hospital
from tests.examples import few
from tests.reference.census import KINDS, census
from tulle.guessing.columns import Guess, guess_columns
from tulle.table.schema import Kind, Role

rng = np.random.default_rng(7)


def guess(values, name="x17", **others) -> Guess:
    frame = pl.DataFrame({name: values, **others})
    return {g.column.name: g for g in guess_columns(frame)}[name]


# -- identifiers ------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    st.integers(60, 3000),
    st.floats(0.05, 1.0),
    st.integers(0, 10**9),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_numbers_given_to_records_are_never_released(count, share, first, seed, as_text):
    numbers = np.random.default_rng(seed).permutation(np.arange(first, first + count))
    kept = pl.Series(numbers[: max(int(share * count), 50)])
    found = guess(kept.cast(pl.String) if as_text else kept)
    assert found.column.role is Role.IDENTIFIER


@pytest.mark.parametrize("share", [1.0, 0.99, 0.9, 0.5, 0.1])
def test_a_case_number_is_an_identifier_however_many_rows_are_missing(share):
    numbers = rng.permutation(np.arange(2_500_000, 2_502_000))[: int(2000 * share)]
    found = guess(numbers, "Fallnr")
    assert found.column.role is Role.IDENTIFIER
    assert not found.needs_decision


@pytest.mark.parametrize("name", ["Handy", "x17", "Patientennummer", "account_no"])
def test_sparse_numbers_are_not_released(name):
    numbers = rng.integers(15_000_000_000, 17_999_999_999, 800)
    assert guess(numbers, name).column.role is Role.IDENTIFIER


def in_blocks(seed, count, blocks, width):
    draw = np.random.default_rng(seed)
    return draw.choice(blocks, count) * width + draw.integers(0, width, count)


@pytest.mark.parametrize("seed", range(10))
def test_numbers_given_in_blocks_or_mostly_lately_are_not_released(seed):
    draw = np.random.default_rng(seed)
    phones = in_blocks(seed, 600, [151, 160, 172], 10**8)
    branches = in_blocks(seed, 800, [11, 23, 37, 58, 91], 10**7)
    lately = (10**7 * draw.beta(4, 1, 800)).astype(int)
    for numbers in (phones, branches, lately):
        assert guess(numbers).column.role is Role.IDENTIFIER


MEASURED = {
    "incomes": (rng.lognormal(10.3, 0.6, 3000)).astype(int),
    "rounded incomes": (rng.lognormal(10.3, 0.6, 3000) / 100).astype(int) * 100,
    "weights in grams": rng.normal(3400, 500, 3000).astype(int),
    "body weights in grams": rng.normal(75_000, 12_000, 2000).astype(int),
    "areas": (rng.lognormal(11, 1.2, 1500)).astype(int),
    "populations": (rng.lognormal(9, 1.5, 500)).astype(int),
    "sampling weights": (rng.gamma(4, 50_000, 8000)).astype(int),
    "changes": rng.normal(0, 50_000, 500).astype(int),
    "reaction times": rng.gamma(8, 60, 2000).astype(int),
}


@pytest.mark.parametrize("what", MEASURED)
def test_measurements_are_not_taken_for_identifiers(what):
    found = guess(MEASURED[what])
    assert found.column.role is Role.QUASI
    assert found.column.kind is Kind.INTEGER


def test_time_stamps_in_a_column_named_so_are_kept():
    seconds = 1_600_000_000 + rng.integers(0, 10**8, 500)
    assert guess(seconds, "created_at").column.role is Role.QUASI
    assert guess(np.arange(1950, 2020), "year").column.role is Role.QUASI


def test_names_of_people_and_companies():
    companies = [f"Company {i % 258} Ltd" for i in range(2000)]
    assert guess(companies, "UTILNAME").column.role is Role.IDENTIFIER
    assert guess(companies).column.role is Role.IDENTIFIER
    doctors = [f"Dr. Name{i % 80}" for i in range(2000)]
    assert guess(doctors).column.role is Role.IDENTIFIER
    assert guess(["Anna", "Paul"] * 50, "Vorname").column.role is Role.IDENTIFIER


def test_mostly_rare_categories_need_a_decision():
    values = [f"value{i % 300}" for i in range(900)]
    found = guess(values)
    assert found.needs_decision
    assert found.action == "leave out until a role is stated"


# -- persons ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["patient_id", "Patientennummer", "PatID", "customerid", "id"])
def test_an_identifier_that_repeats_is_the_person(name):
    ids = np.repeat(rng.choice(10**6, 300, replace=False), 3)
    found = guess(ids, name, sex=["m", "f", "m"] * 300)
    assert found.column.role is Role.PERSON
    assert not found.needs_decision


def test_a_nested_unit_gives_way_to_the_person():
    person = np.repeat(np.arange(400), 2)
    frame = pl.DataFrame({"household_id": person // 3, "person_id": person})
    found = guess_columns(frame)
    assert [g.column.role for g in found] == [Role.IDENTIFIER, Role.PERSON]
    assert guess_columns(frame.select("household_id"))[0].column.role is Role.PERSON


def test_a_person_without_a_name_is_found_by_what_does_not_change():
    ids = rng.choice(10**7, 300, replace=False)
    who = np.repeat(np.arange(300), rng.integers(1, 5, 300))
    frame = pl.DataFrame(
        {
            "x1": ids[who],
            "x2": rng.integers(0, 2, 300)[who],
            "x3": rng.choice(["a", "b", "c", "d"], 300)[who],
            "x4": rng.normal(size=len(who)),
        }
    )
    found = guess_columns(frame)[0]
    assert found.column.role is Role.PERSON  # until somebody decides, people are counted by it
    assert found.needs_decision


def test_numbers_of_a_person_are_found_although_they_repeat_with_the_visits():
    who = np.repeat(np.arange(400), rng.integers(1, 5, 400))
    phone = rng.integers(10**10, 2 * 10**10, 400)[who]
    policy = np.array([f"K{v}" for v in rng.integers(10**8, 10**9, 400)])[who]
    frame = pl.DataFrame({"patient_id": who + 7000, "x1": phone, "x2": policy})
    roles = [g.column.role for g in guess_columns(frame)]
    assert roles == [Role.PERSON, Role.IDENTIFIER, Role.IDENTIFIER]


def test_numbers_that_repeat_like_people_need_a_decision():
    ids = rng.choice(10**8, 500, replace=False)
    found = guess(np.repeat(ids, rng.integers(1, 6, 500)))
    assert found.column.role is Role.PERSON
    assert found.needs_decision


def test_of_values_that_hardly_k_people_share_nothing_would_be_left():
    places = [f"{letter}land" for letter in "abcdefghijklmnopqrstuvwxyzäöüß"]
    for rows, role in ((11, Role.IDENTIFIER), (16, Role.QUASI)):  # k is 10, and more is drawn
        found = guess(np.repeat(places, rows), "place")
        assert (found.column.role, found.needs_decision) == (role, role is Role.IDENTIFIER)


def test_people_are_counted_by_one_column():
    rows = {name: np.repeat(np.arange(600), 3) for name in ("x1", "x2")}
    frame = pl.DataFrame({**rows, "x3": rng.normal(size=1800)})
    assert [g.column.role for g in guess_columns(frame)][:2] == [Role.PERSON, Role.IDENTIFIER]


def test_money_named_personal_and_squares_of_ages_are_no_people():
    spent = (rng.lognormal(7, 0.5, 777) / 10).astype(int) * 10
    assert guess(spent, "Personal").column.role is Role.QUASI
    assert guess(rng.integers(18, 80, 800) ** 2, "agesq").column.role is Role.QUASI


def test_ages_among_low_identifiers_refer_to_nobody():
    ids = np.concatenate([np.arange(1, 400), 10_000 + np.arange(0, 300_000, 1000)])
    ages = rng.integers(17, 60, len(ids))
    found = guess_columns(pl.DataFrame({"rownames": ids, "age": ages}))
    assert [g.column.role for g in found] == [Role.IDENTIFIER, Role.QUASI]
    far = np.array([f"N{value}" for value in rng.choice(10**7, 500, replace=False)])
    family = pl.DataFrame({"person_no": far, "x1": rng.permutation(far)[:30].repeat(17)[:500]})
    found = guess_columns(family)[1]
    assert (found.column.role, "person_no" in found.column.reason) == (Role.IDENTIFIER, True)


# -- numbers with codes -----------------------------------------------------------------------


def test_text_codes_among_numbers_are_proposed():
    income = [str(v) for v in MEASURED["incomes"]] + ["N"] * 100 + ["siehe Akte Meier"] * 3
    found = guess(income, "PINCP")
    assert found.column.special == ("N",)
    assert found.unread == 3
    assert "Meier" not in repr(found)


@pytest.mark.parametrize(
    ("values", "code", "kind"),
    [
        ([*rng.gamma(1, 30, 500).round(1), *[9999.0] * 30], 9999, Kind.DECIMAL),
        ([*rng.binomial(4, 0.4, 500), *[-99] * 20], -99, Kind.ORDERED),
        ([*(1 + rng.binomial(4, 0.5, 500)), *[9] * 30], 9, Kind.ORDERED),
        ([*rng.integers(18, 80, 500), *[999] * 12], 999, Kind.INTEGER),
    ],
)
def test_sentinels_are_proposed(values, code, kind):
    found = guess(values, "score" if code == -99 else "x1")
    assert found.column.missing == (code,)
    assert found.column.kind is kind


@pytest.mark.parametrize(
    "values",
    [
        rng.integers(0, 100, 2000),  # 99 is a value
        rng.integers(1, 10, 2000),  # 9 is an answer
        rng.normal(0, 10, 2000).round().astype(int),
        [0, 1, 2, 3, 4, 5, 9] * 3 + [0] * 500 + [1] * 200,  # one large family
        np.repeat([-6, -2, 0, 1, 2, 5], 50),  # years of schooling more or less than 14
    ],
)
def test_values_are_not_taken_for_codes(values):
    assert guess(values, "Kinder").column.special == ()


@pytest.mark.slow
def test_money_and_dates_are_named_for_what_they_look_like():
    table = {g.column.name: g for g in guess_columns(hospital(np.random.default_rng(3)))}
    bill, born = table["Kosten_Medikamente"].column, table["Geburtsdatum"]
    assert (bill.kind, bill.missing, bill.format[-5:]) == (Kind.DECIMAL, ("k.A.",), ",89 €")
    assert "numbers with" in bill.reason
    assert (born.column.kind, born.column.format) == (Kind.DATETIME, "%d.%m.%Y")
    assert born.unread > 0


@pytest.mark.slow
def test_nothing_of_the_hospital_export_that_names_people_is_released():
    frame = hospital(np.random.default_rng(5))
    wrong = []
    for found in guess_columns(frame):
        wanted = LABELS[found.column.name].split()[1].split("/")
        roles = {
            Role.IDENTIFIER: {"id"},
            Role.PERSON: {"p"},
            Role.QUASI: {"q"},
            Role.SENSITIVE: {"s"},
        }
        if not roles.get(found.column.role, {"n"}) & {*wanted} and not found.needs_decision:
            wrong.append((found.column.name, found.column.role))
    assert wrong == []


# -- codes written as numbers -----------------------------------------------------------------


def test_codes_written_as_whole_numbers():
    assert guess(["01067", "04109", "10115"] * 40, "Plz").column.kind is Kind.CATEGORY
    assert guess([10115, 80331, 20095] * 40, "zip").column.kind is Kind.CATEGORY
    region = guess(["01-01301", "38-00100", "06-08507"] * 40)
    assert region.column.kind is Kind.CATEGORY
    assert region.column.role is Role.QUASI
    race = rng.choice(
        np.arange(1, 10), 3000, p=[0.6, 0.2, 0.02, 0.01, 0.01, 0.08, 0.01, 0.05, 0.02]
    )
    assert guess(race).column.kind is Kind.CATEGORY
    assert guess(rng.poisson(1.1, 3000)).column.kind is Kind.INTEGER
    assert guess(1 + rng.binomial(4, 0.5, 3000)).column.kind is Kind.ORDERED
    assert guess(rng.integers(0, 99, 3000), "age").column.kind is Kind.INTEGER


def test_round_numbers_with_none_between_them_are_no_list():
    few = [5 * step for step in range(13)]  # more than a handful, and nothing left between them
    assert guess(few * 20).column.kind is Kind.INTEGER


def test_dates_as_whole_numbers_are_not_averaged():
    days = [int((date(2020, 1, 1)).strftime("%Y%m%d")) + i for i in range(28)] * 3
    found = guess(days).column
    assert (found.kind, found.format) == (Kind.DATETIME, "%Y%m%d")


# -- languages ----------------------------------------------------------------------------------

NAMES = {
    Role.SENSITIVE: (
        "diagnosis Hauptdiagnose diagnostic diagnóstico diagnosi diagnose "
        "income Einkommen revenu ingresos reddito inkomen salário"
    ),
    Role.QUASI: "sex Geschlecht sexe sexo sesso geslacht city Wohnort ville ciudad città plaats",
    Role.IDENTIFIER: (
        "surname Nachname prénom apellido cognome achternaam sobrenome lastName "
        "Telefonnummer téléphone dirección indirizzo adres e-mail"
    ),
}


@pytest.mark.parametrize(
    ("role", "name"), [(role, name) for role, names in NAMES.items() for name in names.split()]
)
def test_roles_in_seven_languages(role, name):
    values = [f"value {i % 25}" for i in range(1000)]
    found = guess(values, name)
    assert found.column.role is role
    assert found.column.reason


# -- whole tables -----------------------------------------------------------------------------


def test_columns_without_evidence_have_no_reason():
    found = guess(rng.normal(size=100))
    assert found.column.reason == ""


@pytest.mark.slow
@few(40)
@given(st.lists(st.one_of(st.none(), st.text(max_size=8)), max_size=40))
def test_any_text_column_gets_a_guess_that_shows_no_value(values):
    secret = [None if value is None else f"<{value}>" for value in values]
    found = guess(pl.Series(secret, dtype=pl.String))
    assert not any(value and value in repr(found) for value in secret)


SOME = {
    pl.Int64: st.integers(-(2**63), 2**63 - 1),
    pl.UInt64: st.integers(0, 2**64 - 1),
    pl.Int8: st.integers(-128, 127),
    pl.Float64: st.floats(),
    pl.Boolean: st.booleans(),
    pl.Date: st.dates(),
    pl.Datetime: st.datetimes(),
    pl.Time: st.times(),
    pl.Duration: st.timedeltas(timedelta(-9999), timedelta(9999)),
    pl.Categorical: st.text(max_size=5),
    pl.String: st.from_regex(r"[0-9]{1,3}([.,:/ -][0-9]{1,4}){0,3} ?(€|%|kg)?", fullmatch=True),
    pl.Decimal(12, 2): st.decimals(-1000, 1000, places=2),
    pl.Binary: st.binary(max_size=4),
}


@given(st.data())
def test_no_column_of_any_type_fails(data):
    dtype = data.draw(st.sampled_from(list(SOME)))
    cells = data.draw(st.lists(st.one_of(st.none(), SOME[dtype]), max_size=60))
    found = guess(pl.Series(cells, dtype=dtype), data.draw(st.sampled_from(["x", "id", "Datum"])))
    assert found.records == len(cells)


def test_opaque_and_empty_columns():
    frame = pl.DataFrame({"a": [[1], [2]], "b": [None, None], "c": [1, 1]})
    assert [g.column.role for g in guess_columns(frame)] == [Role.IGNORED] * 3


def test_a_column_may_be_called_count_or_value():
    frame = pl.DataFrame({"count": ["1", "x"], "value": [1, 2], "text": ["a", "b"], "n": [1, 2]})
    assert len(guess_columns(frame)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_every_column_of_a_census_is_kept_in_the_right_kind(seed: int) -> None:
    guesses = guess_columns(census(np.random.default_rng(seed), 12_000))
    assert [guess.column.name for guess in guesses] == list(KINDS)
    for guess in guesses:
        column = guess.column
        assert column.role.released, column.name
        assert not guess.needs_decision, column.name
        assert column.kind in KINDS[column.name].split("/"), column.name
