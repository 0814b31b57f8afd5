"""A hospital's export as hospitals export: German, messy, several visits a patient.

Every trap that a new user met is in it: case numbers with gaps, amounts with a currency sign,
dates in mixed forms, sentinels, survey answers with 9 for "no answer", few but personal comments.
"""

from __future__ import annotations

import numpy as np
import polars as pl


def _words(text: str) -> list[str]:
    return text.split()


_SURNAMES = _words("Müller Schmidt Schneider Fischer Weber Meyer Wagner Becker Schulz Hoffmann")
_SYLLABLES = _words("ba be bi da del fen ga gert hal hen kel lau len mar min nor ost pel rath sen")
_GIVEN = _words("Anna Paul Lena Jonas Marie Lukas Emma Felix Clara Max Ida Ben Greta Tom Ella Nils")
_TOWNS = {"04109": "Leipzig", "01067": "Dresden", "10115": "Berlin", "80331": "München"}
_ICD = _words("I10 E11.9 J18.9 M54.5 K35.8 O80 C61 N39.0 S72.0 I21.9 F32.1 G40.9 B20 E84.0 Q90.9")
_COMMENTS = (
    "Frau Meier war sehr nett",
    "Patient wünscht Rückruf durch Dr. Klein",
    "Angehörige informiert, Sohn holt ihn ab",
    "Unauffälliger Verlauf ohne Besonderheiten",
)

# column: kind role, as in labels.toml
LABELS = {
    "Fallnr": "- id", "Patientennummer": "- p", "Nachname": "- id", "Vorname": "- id",
    "Geburtsdatum": "t q", "Geschlecht": "c q", "PLZ": "c q", "Ort": "c q",
    "Regionalschlüssel": "c q", "Handy": "- id", "Festnetz": "- id", "Versichertennr": "- id",
    "Arbeitgeber": "- id/q", "Hausarzt": "- id/q", "Alter": "i q", "Familienstand": "c q",
    "Kinder": "i/o q", "Aufnahmedatum": "t q", "Entlassungsdatum": "t q", "Liegedauer": "i q",
    "Station": "c q", "Hauptdiagnose": "c s", "Größe_cm": "i q", "Gewicht_kg": "d q",
    "RR_sys": "i s/q", "CRP": "d s", "Score": "o/c s/q", "Pflegegrad": "o/c s/q",
    "Kosten_DRG": "d s", "Kosten_Medikamente": "d s", "Kosten_Zimmer": "d/i s",
    "Einkommen": "i s", "Auslastung": "i/d q", "Wochenstunden": "i q", "Zufriedenheit": "o/c q/s",
    "Frage_7": "o/c q/s", "Gruppe": "c q", "Hochrechnung": "i q", "Verstorben": "c s",
    "Kommentar": "- n", "Labor_Nr": "- id", "Messzeit": "t/i q",
}  # fmt: skip


def hospital(rng: np.random.Generator, patients: int = 1500) -> pl.DataFrame:
    """Make the export: every cell is text, as it stands in the file."""
    visits = 1 + rng.poisson(0.8, patients)
    who = np.repeat(np.arange(patients), visits)
    who = who[rng.permutation(len(who))]
    n = len(who)
    person = _people(rng, patients)
    stay = 1 + rng.poisson(5, n)
    start = rng.integers(0, 700, n)
    cells: dict[str, list[str] | np.ndarray[tuple[int], np.dtype[np.str_]]] = {
        "Fallnr": _text(rng.permutation(np.arange(2_500_000, 2_500_000 + int(n * 1.1)))[:n]),
        **{name: np.array(values, dtype=object)[who] for name, values in person.items()},
        "Aufnahmedatum": [_day(2023, int(d), "%d.%m.%Y") for d in start],
        "Entlassungsdatum": [
            "" if rng.random() < 0.03 else _day(2023, int(d + s), "%d.%m.%Y")
            for d, s in zip(start, stay, strict=True)
        ],
        "Liegedauer": _text(stay),
        "Station": rng.choice(["Innere", "Chirurgie", "Gyn", "Neuro", "Urologie"], n),
        "Hauptdiagnose": rng.choice(_ICD, n, p=_falling(len(_ICD))),
        "RR_sys": _text(5 * np.rint(rng.normal(27, 3, n)).astype(int)),
        "CRP": _sparse(rng, [_comma(v, 1) for v in rng.gamma(0.8, 30, n)], 0.06, "9999"),
        "Score": _sparse(rng, _text(rng.binomial(4, 0.4, n)), 0.05, "-99"),
        "Kosten_DRG": [_euro(v) for v in rng.lognormal(8, 0.7, n)],
        "Kosten_Medikamente": _sparse(rng, [_euro(v) for v in rng.gamma(2, 90, n)], 0.02, "k.A."),
        "Kosten_Zimmer": [_euro(80.0 * v) for v in rng.binomial(10, 0.05, n)],
        "Auslastung": [f"{v}%" for v in rng.integers(20, 101, n)],
        "Zufriedenheit": _sparse(rng, _text(1 + rng.binomial(4, 0.6, n)), 0.08, "9"),
        "Frage_7": _sparse(rng, _text(1 + rng.binomial(4, 0.5, n)), 0.08, "9"),
        "Gruppe": rng.choice(["1", "2", "3", "5", "8"], n, p=[0.1, 0.4, 0.05, 0.3, 0.15]),
        "Hochrechnung": _text(rng.lognormal(7, 0.4, n).astype(int)),
        "Verstorben": np.where(rng.random(n) < 0.05, "ja", "nein"),
        "Kommentar": [_COMMENTS[i] if i < 4 else "" for i in rng.integers(0, 12, n)],
        "Labor_Nr": [f"L{v:07d}" for v in rng.choice(9_999_999, n, replace=False)],
        "Messzeit": _text(1_672_531_200 + rng.integers(0, 60_000_000, n)),
    }
    frame = pl.DataFrame({name: pl.Series(list(values)) for name, values in cells.items()})
    return frame.select(list(LABELS)).select(pl.all().replace("", None))


def _people(rng: np.random.Generator, count: int) -> dict[str, list[str]]:
    """Make what does not change between the visits of a patient."""
    born = [_birthday(rng) for _ in range(count)]
    codes = rng.choice(list(_TOWNS), count)
    firms = ["".join(rng.choice(_SYLLABLES, 3)).title() + " GmbH" for _ in range(260)]
    doctors = [f"Dr. {''.join(rng.choice(_SYLLABLES, 2)).title()}" for _ in range(80)]
    surnames = _SURNAMES + ["".join(rng.choice(_SYLLABLES, 2)).title() for _ in range(400)]
    income = [f"{v:,}".replace(",", ".") for v in (rng.lognormal(7.8, 0.5, count)).astype(int)]
    hours = np.where(rng.random(count) < 0.4, 40, rng.integers(0, 45, count))
    return {
        "Patientennummer": _text(rng.choice(90_000_000, count, replace=False) + 10_000_000),
        "Nachname": list(rng.choice(surnames, count)),
        "Vorname": list(rng.choice(_GIVEN, count)),
        "Geburtsdatum": born,
        "Geschlecht": list(rng.choice(["m", "w", "d"], count, p=[0.48, 0.5, 0.02])),
        "PLZ": list(codes),
        "Ort": [_TOWNS[code] for code in codes],
        "Regionalschlüssel": list(rng.choice(["14-71301", "14-61200", "11-00000"], count)),
        "Handy": _text(rng.integers(15_000_000_000, 17_999_999_999, count)),
        "Festnetz": [f"0{rng.integers(30, 999)} {rng.integers(10**5, 10**7)}" for _ in born],
        "Versichertennr": [f"{chr(65 + i % 26)}{rng.integers(10**8, 10**9)}" for i in range(count)],
        "Arbeitgeber": list(rng.choice(firms, count)),
        "Hausarzt": list(rng.choice(doctors, count)),
        "Alter": _text(np.clip(rng.normal(58, 20, count), 0, 99).astype(int)),
        "Familienstand": list(rng.choice(["ledig", "verheiratet", "verwitwet"], count)),
        "Kinder": _text(rng.poisson(1.2, count)),
        "Größe_cm": _text(rng.normal(171, 10, count).astype(int)),
        "Gewicht_kg": [_comma(v, 1) for v in rng.normal(78, 15, count)],
        "Pflegegrad": _text(rng.choice(6, count, p=[0.6, 0.1, 0.12, 0.1, 0.05, 0.03])),
        "Einkommen": _sparse(rng, income, 0.1, "k.A."),
        "Wochenstunden": _text(hours),
    }


def _birthday(rng: np.random.Generator) -> str:
    """Write a date of birth in one of the forms that clerks use; few are impossible."""
    luck = rng.random()
    if luck < 0.004:
        return str(rng.choice(["00.00.0000", "31.02.1950", "unbekannt"]))
    form = "%d.%m.%Y" if luck < 0.8 else "%Y-%m-%d" if luck < 0.9 else "%d.%m.%y"
    return _day(int(rng.integers(1935, 2015)), int(rng.integers(0, 365)), form)


def _day(year: int, days: int, form: str) -> str:
    from datetime import date, timedelta

    return (date(year, 1, 1) + timedelta(days=days)).strftime(form)


def _text(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    return [str(int(value)) for value in values]


def _comma(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace(".", ",")


def _euro(value: float) -> str:
    return f"{value:,.2f} €".translate(str.maketrans(",.", ".,"))


def _sparse(rng: np.random.Generator, values: list[str], share: float, code: str) -> list[str]:
    return [code if rng.random() < share else value for value in values]


def _falling(count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    weights: np.ndarray[tuple[int], np.dtype[np.float64]] = 1 / np.arange(1, count + 1) ** 1.6
    weights[-1] /= 6  # three or so
    weights /= weights.sum()
    return weights
