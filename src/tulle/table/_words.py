"""The words in column names that say what a column means for people.

English, with a few of the neighbours' words; whoever knows better edits the policy.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# These are what people are called: text of it names them, however few values there are.
PERSONAL_NAMES = _words(
    "surname forename nickname nachname vorname familienname geburtsname zuname rufname prenom "
    "prénom apellido cognome achternaam voornaam"
)
# So is a name beside one of these words, or in one word with it (last_name, patientname).
PERSON_NAMES = _words(
    "first last full given family maiden middle person patient customer client member user "
    "employee student pupil child mother father parent spouse doctor physician"
)
# These name a person even where values repeat (two people with one address).
NAMES_A_PERSON = _words(
    "login email mail phone telephone mobile fax ssn nin passport iban bic mrn nhs licence license "
    "plate vin address street signature fingerprint imei"
)
# One of these words makes a number of persons or records, if values hardly repeat.
NUMBERS = _words(
    "id identifier uuid guid key number no nr ref reference record row index serial token hash "
    "url ip"
)
# So do these, if there is no other word.
PERSONS = _words(
    "patient customer client member user person employee student name first last full given "
    "family maiden middle account card case claim code"
)

SENSITIVE = _words(
    "diagnosis disease condition illness icd icd9 icd10 medication drug treatment therapy "
    "prescription symptom hiv cancer tumor tumour stroke diabetes pregnancy pregnant disability "
    "health mental psychiatric allergy genotype gene smoker smoking alcohol salary income wage "
    "earning revenue bonus debt loan balance wealth credit score grade gpa capital religion "
    "religious belief party political vote union orientation sexuality crime criminal offence "
    "offense conviction arrest glucose insulin cholesterol bmi viral"
)
TARGETS = _words(
    "class target label y outcome response churn survived default income diagnosis result "
    "category species"
)
CLEAR_TARGETS = _words("class target label y outcome")

KNOWN_TO_OTHERS = {
    "age": "age yob",
    "sex": "sex gender",
    "date of birth": "birth birthday birthdate dob born",
    "place": "zip zipcode postcode postal plz city town county state region country district "
    "province village municipality nationality citizenship birthplace location lat latitude lon "
    "lng longitude",
    "origin": "race ethnicity ethnic origin language tongue native",
    "family": "marital married spouse children kid household family relationship dependent",
    "work and schooling": "occupation job profession employer workclass work hour education "
    "school degree employment rank title",
    "body": "height weight hair eye",
    "date": "date day month year admission discharge hired",
}
TOPIC_OF = {word: topic for topic, words in KNOWN_TO_OTHERS.items() for word in words.split()}

# Whole numbers with such names are codes, not quantities ...
CODES = _words(
    "code type class category cat status group zone region state country county district sex "
    "gender race ethnicity icd"
)
PLACES = _words("zip zipcode postcode postal plz")
# ... and with such names they are quantities, however few values they have.
COUNTS = _words("num number count n children kid dependent sibling")

_NO_PLURAL = ("ss", "is", "us", "species", "series", "diabetes")


def words_of(name: str) -> frozenset[str]:
    """The words of a column name, in small letters and in the singular.

    >>> sorted(words_of("nativeCountry_codes-2"))
    ['2', 'code', 'country', 'native']
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    parts = [word for word in re.split(r"[\W_]+", spaced.lower()) if word]
    return frozenset(_singular(word) for word in parts)


def are_personal_names(parts: frozenset[str]) -> bool:
    """Whether the words of a column name say that people are called so.

    >>> [are_personal_names(words_of(name)) for name in ("Name of patient", "LASTNAME", "file")]
    [True, True, False]
    """
    together = {word.removesuffix("name") for word in parts if word.endswith("name")}
    beside = "name" in parts and (parts == {"name"} or parts & PERSON_NAMES)
    return bool(beside or parts & PERSONAL_NAMES or together & PERSON_NAMES)


def _singular(word: str) -> str:
    plural = len(word) > 3 and word.endswith("s") and not word.endswith(_NO_PLURAL)
    return word[:-1] if plural else word
