"""The data sets of the sketch paper, or their stand-ins, shuffled: records and classes."""

from __future__ import annotations

import gzip
import json
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from benchmarks.results import data_folder
from tulle import SecretKey, quest
from tulle.sketch._records import as_records

SEED = 3
KEY = SecretKey(b"\x03" * 32)


class Data(NamedTuple):
    name: str
    X: Any
    y: Any


def two_quests(I: int, n: int, N: int = 1_000) -> Data:  # noqa: E741
    """Two instances of T20.I4 (or I6) as two classes: C20.I4.D200K for 200,000 records."""
    parts = [quest(T=20, I=I, D=n // 2, N=N, random_state=seed) for seed in (1, 2)]
    X = vstack(parts, format="csr").astype(np.float32)
    return shuffled(Data(f"C20.I{I}", X, np.repeat([0, 1], n // 2)), n)


def newsgroups(n: int) -> Data:
    stored = np.load(data_folder() / "text" / "20news_bow.npz")
    X = csr_array((stored["data"], stored["indices"], stored["indptr"]), shape=stored["shape"])
    return shuffled(Data("20 Newsgroups", X.astype(np.float32), stored["label"]), n)


def reuters(n: int) -> Data:
    """The ten largest of the 52 classes of single-topic documents."""
    with gzip.open(data_folder() / "text" / "reuters21578_modapte.jsonl.gz", "rt") as file:
        entries = [json.loads(line) for line in file]
    labelled = [entry for entry in entries if entry["r52"]]
    names, codes, counts = np.unique(
        [entry["r52"] for entry in labelled], return_inverse=True, return_counts=True
    )
    top = np.isin(codes, np.argsort(-counts)[:10])
    records = as_records([entry["text"] or "empty" for entry in labelled])
    assert records is not None
    return shuffled(Data("Reuters", records.matrix[top], names[codes[top]]), n)


def shuffled(data: Data, n: int) -> Data:
    order = np.random.default_rng(SEED).permutation(data.X.shape[0])[:n]
    return Data(data.name, data.X[order], data.y[order])
