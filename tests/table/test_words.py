"""The words of column names."""

from __future__ import annotations

import pytest

from tulle.table._words import topics_of, vocabulary, words_of


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("Fallnr", "number"),
        ("Kundennummer", "number"),
        ("UTILITYID", "number"),
        ("custID", "number"),
        ("PatientenID", "person"),
        ("Körpergröße", "body"),
        ("koerpergroesse", "body"),
        ("Größe", "body"),
        ("date de naissance", "birth"),
        ("fecha_nacimiento", "birth"),
        ("Kosten_Medikamente", "money"),
        ("Hausnummer", "contact"),
        ("code postal", "postcode"),
        ("MonatsEinkommen", "money"),
    ],
)
def test_topics(name, topic):
    assert topic in topics_of(name)


@pytest.mark.parametrize("name", ["paid", "valid", "grid", "report", "start", "understand", "x17"])
def test_words_that_only_look_alike(name):
    assert not {"number", "place", "family", "code"} & topics_of(name).keys()


def test_names_are_split_at_capitals_digits_and_signs():
    assert words_of("lastName2_ofPatient-ID")[:6] == ["last", "name", "2", "of", "patient", "id"]


def test_every_topic_has_words_of_every_language_or_none():
    for topic in vocabulary().topics.values():
        assert topic.says
        assert topic.words
