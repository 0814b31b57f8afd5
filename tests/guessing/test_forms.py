"""Values by which people are known, found by their form."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tulle.guessing.columns import infer_columns
from tulle.table.schema import Role

rng = np.random.default_rng(11)


def digits(count: int, size: int) -> list[str]:
    return ["".join(map(str, row)) for row in rng.integers(0, 10, (count, size))]


def completed(numbers, is_right, ends):
    """Return numbers with the ending that makes them right; those that have none are left out."""
    found = []
    for number in numbers:
        found += [whole for end in ends if is_right(whole := number + end)][:1]
    return found


def luhn(text):
    places = [int(d) for d in text[::-1]]
    return sum(places[::2] + [sum(divmod(2 * d, 10)) for d in places[1::2]]) % 10 == 0


def eleven(text):  # the Dutch test
    return sum(int(d) * w for d, w in zip(text, (9, 8, 7, 6, 5, 4, 3, 2, -1))) % 11 == 0


def nhs(text):
    return sum(int(d) * (10 - place) for place, d in enumerate(text)) % 11 == 0


def cpf(text):
    def check(part):
        total = sum(int(d) * w for d, w in zip(part, range(len(part) + 1, 1, -1)))
        return 0 if total % 11 < 2 else 11 - total % 11

    return text[9:] == f"{check(text[:9])}{check(text[:10])}"


ONE, TWO = [str(d) for d in range(10)], [f"{d:02d}" for d in range(100)]
BORN = [f"1{year}05{rest}" for year, rest in zip(digits(200, 2), digits(200, 8))]
HOSTS = rng.integers(1, 255, (200, 4))
SHAPES = {
    "e-mail": [f"p{i}.x@clinic.example" for i in range(200)],
    "web": [f"https://x.example/u/{i}" for i in range(200)],
    "telephone": [f"+49 30 {i}" for i in digits(200, 7)],
    "telephone, American": [f"({a}) 555-{b}" for a, b in zip(digits(200, 3), digits(200, 4))],
    "network": [".".join(map(str, host)) for host in HOSTS.tolist()],
    "card": completed(["4" + n for n in digits(200, 14)], luhn, ONE),
    "card, in fours": [
        " ".join(n[i : i + 4] for i in range(0, 16, 4))
        for n in completed(["5" + n for n in digits(200, 14)], luhn, ONE)
    ],
    "BSN": completed(digits(200, 8), eleven, ONE),
    "NHS": [f"{n[:3]} {n[3:6]} {n[6:]}" for n in completed(digits(200, 9), nhs, ONE)],
    "CPF": [f"{n[:3]}.{n[3:6]}.{n[6:9]}-{n[9:]}" for n in completed(digits(200, 9), cpf, TWO)],
    "DNI": [f"{n}{'TRWAGMYFPDXBNJZSQVHLCKE'[int(n) % 23]}" for n in digits(200, 8)],
    "NIR": [f"{n}{97 - int(n) % 97:02d}" for n in BORN],
    "IBAN": [f"DE{98 - int(n + '131400') % 97:02d}{n}" for n in digits(200, 18)],
    "SSN": [f"{area}-12-{number}" for area, number in zip(range(101, 301), digits(200, 4))],
    "address": [f"{i} Elm Street" for i in range(1, 201)],
    "address, German": [f"Lindenstraße {i}" for i in range(1, 201)],
    "address, French": [f"{i} rue Victor Hugo" for i in range(1, 201)],
}  # fmt: skip


@pytest.mark.parametrize("form", SHAPES)
def test_values_by_which_people_are_known_are_found_by_form(form):
    values = SHAPES[form]
    slips = ["?", "see file"] * (len(values) // 50)
    for column in (values, values * 3, values + slips):
        found = infer_columns(pl.DataFrame({"x17": column}))[0]
        assert found.role is Role.IDENTIFIER, form
    assert "looks like" in infer_columns(pl.DataFrame({"x17": values}))[0].reason


@pytest.mark.parametrize("form", ["BSN", "NHS", "card"])
def test_numbers_with_check_digits_are_found_as_numbers_too(form):
    values = [int(text.replace(" ", "")) for text in SHAPES[form]]
    found = infer_columns(pl.DataFrame({"x17": values * 2}))[0]
    assert found.role is Role.IDENTIFIER
    assert "looks like" in found.reason


def test_wrong_check_digits_are_no_numbers_of_people():
    wrong = [n for n in digits(400, 9) if not eleven(n)]
    assert "looks like" not in infer_columns(pl.DataFrame({"x17": wrong}))[0].reason
    weights = rng.normal(300_000_000, 50_000_000, 500).astype(int)
    found = infer_columns(pl.DataFrame({"weight": weights}))[0]
    assert found.role is Role.QUASI


@pytest.mark.parametrize("name", ["district", "LOCATION", "current_title", "cusip"])
def test_names_alone_do_not_make_identifiers(name):
    values = [f"value {i % 12}" for i in range(600)]
    assert infer_columns(pl.DataFrame({name: values}))[0].role is Role.QUASI
