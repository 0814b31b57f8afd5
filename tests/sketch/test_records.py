"""Files of records: whole and in batches, joined again, and what is refused."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tulle import SecretKey, Sketcher
from tulle.errors import DataError
from tulle.sketch import Sketches
from tulle.sketch._records import SparseRecords, as_records, joined, record_batches

KEY = SecretKey(b"a key for tests, never for data!")
texts = st.lists(st.text("ab cdé", max_size=12), min_size=1, max_size=12)


def dense(records):
    """Term -> column of values, whatever the order of the columns."""
    columns = dict(zip(records.terms, records.matrix.toarray().T))
    return {term: columns[term].tolist() for term in sorted(columns) if columns[term].any()}


@pytest.mark.slow
@given(texts, st.integers(1, 5), st.integers(1, 8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_hold_the_records_of_the_whole_file(tmp_path, documents, records, entries):
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in [*documents, "ab cd"]))
    batches = list(record_batches(path, "text", records, entries))
    assert all(batch.matrix.shape[0] <= records for batch in batches)
    assert dense(joined(batches)) == dense(as_records(path))
    sketcher = Sketcher(key=KEY, delta=0.3).fit(path)
    parts = Sketches.stacked([sketcher.transform(batch) for batch in batches])
    whole = sketcher.transform(path)
    assert np.array_equal(parts.lengths, whole.lengths)
    assert np.array_equal(parts.values, whole.values)
    assert parts.dtype == whole.dtype


@pytest.mark.parametrize("lines", ["1 2 3\n2 3\n7 1\n9 2 3\n", "ham egg\nrice\negg rice tea\n"])
def test_batches_of_baskets(tmp_path, lines):
    path = tmp_path / "b.dat"
    path.write_text(lines)
    batches = list(record_batches(path, records=2))
    assert dense(joined(batches)) == dense(as_records(path))
    assert len(batches) == (2 if lines[0] == "1" else 1)  # words are read whole
    assert batches[0].matrix.indices.dtype == np.int32


def test_a_byte_order_mark_and_other_ends_of_lines_change_no_basket(tmp_path):
    path = tmp_path / "b.dat"
    path.write_text("1 2 3\n1 2\n")
    expected = dense(as_records(path))
    marked = b"\xef\xbb\xbf1 2 3\r\n1 2\r\n"
    for content in (marked, gzip.compress(marked)):
        path.write_bytes(content)
        assert dense(as_records(path)) == expected
        assert dense(joined(list(record_batches(path)))) == expected


@pytest.mark.parametrize("name", ["docs.json", "docs.md", "docs.xml.gz"])
def test_files_of_an_unknown_kind_are_not_taken_for_baskets_of_words(tmp_path, name):
    path = tmp_path / name
    path.write_text('[{"text": "secret words"}]')
    for read in (as_records, lambda path: list(record_batches(path))):
        with pytest.raises(DataError) as caught:
            read(path)
        assert "secret" not in str(caught.value)
    path.write_text("1 2\n3 4\n")  # numbers between blanks are baskets, whatever the name
    assert as_records(path).matrix.shape == (2, 4)


def test_joined_leaves_out_columns_that_nobody_has():
    first, second = as_records(["ab cd", "ef"]), as_records(["ef gh"])
    part = SparseRecords(first.matrix[:1], first.terms)
    together = joined([part, second])
    assert together.terms == ["ab", "cd", "ef", "gh"]
    assert together.matrix.indptr.dtype == first.matrix.indptr.dtype == np.int32
    assert together.matrix.toarray().tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]


@pytest.mark.parametrize(
    "name,content,message",
    [
        ("a.txt", "!\n?\n", "vocabulary"),
        ("a.jsonl", '{"text": "ab"}\n{"txt": "secret"}', "'text'"),
        ("a.dat", "1 2\n3 secret\n", "item"),
        ("a.dat", "1 2\n\n3\n", "1 line"),
        ("a.dat", "", "empty"),
    ],
)
def test_wrong_files_are_refused_in_batches_as_whole(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    for read in (as_records, lambda path: list(record_batches(path, records=1))):
        with pytest.raises(DataError, match=message) as caught:
            read(path)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("weight", ["secret", None, 10**400, 1j])
def test_weights_must_be_numbers(weight):
    with pytest.raises(DataError) as caught:
        as_records([{"ab": weight}])
    assert "secret" not in str(caught.value)


def test_terms_of_weights_must_be_words():
    with pytest.raises(DataError, match="keys"):
        as_records([{1: 2.0}])
