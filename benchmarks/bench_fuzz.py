"""Fuzz every parser with mutated inputs: no crash, no hang, no cell in a message.

``python -m benchmarks.bench_fuzz [--quick] [--inputs N] [--seed S] [PARSER...]``: a million inputs
in all (quick: 2,000). A parser may refuse an input with a ``TulleError`` or accept it; any other
exception is a crash, more than five CPU seconds a hang, and a message that holds the marked cell a
leak. Crashing inputs go to the folder ``fuzz-crashes``.
"""

from __future__ import annotations

import io
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.results import write_table
from tulle.cli._process import libraries_silenced
from tulle.errors import TulleError

SEED = 0
SECRET = "Zq7Secret"  # a cell: no message may hold it
HANG = 5.0  # CPU seconds
LONGEST = 20_000  # bytes of an input
_EDGES = [0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x0A, 0x0D, 0x2C]


class Hang(BaseException):
    """A parser took too long."""


class Parser(NamedTuple):
    """What is fuzzed: the work, examples to mutate, tokens to insert, a share of all inputs."""

    parse: Callable[[bytes], Any]
    examples: list[bytes]
    tokens: list[bytes]
    share: float
    quotes: bool = False  # its messages may quote the text: it is the user's own, not data


def mutated(parser: Parser, chance: random.Random) -> bytes:
    """Return one of the examples after a few random changes."""
    text = bytearray(chance.choice(parser.examples))
    for _ in range(chance.choice((1, 1, 2, 3, 5, 8))):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.choice((1, 1, 2, 4, 16, 64)))
        kind = chance.randrange(9)
        if kind == 0 and at < len(text):
            text[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and at < len(text):
            text[at] = chance.choice(_EDGES)
        elif kind == 2:
            del text[at:end]
        elif kind == 3:
            text[at:at] = text[at:end]
        elif kind == 4:
            text[at:at] = chance.choice(parser.tokens)
        elif kind == 5:
            text[at:at] = chance.choice(parser.tokens) * chance.choice((2, 7, 50, 500))
        elif kind == 6:
            other = chance.choice(parser.examples)
            begin = chance.randrange(len(other) + 1)
            text[at:at] = other[begin : begin + chance.choice((4, 40, 400))]
        elif kind == 7:
            text[at:end] = chance.randbytes(chance.choice((1, 2, 8, 32)))
        else:
            text[at:end] = chance.choice(parser.tokens)
    return bytes(text[:LONGEST])


def fuzzed(name: str, parser: Parser, count: int, seed: int, crashes: Path) -> dict[str, Any]:
    """Feed so many inputs to a parser; return what happened."""
    chance = random.Random(f"{name}/{seed}")
    told: Counter[str] = Counter()
    begin = time.process_time()
    for number in range(count):
        text = mutated(parser, chance)
        signal.setitimer(signal.ITIMER_PROF, HANG)
        found = _outcome(parser, text)
        signal.setitimer(signal.ITIMER_PROF, 0)
        told[found.partition(" ")[0]] += 1
        if not found.startswith(("accepted", "refused")):
            crashes.mkdir(exist_ok=True)
            place = crashes / f"{name.replace(' ', '-')}-{number}"
            place.write_bytes(text)
            place.with_suffix(".txt").write_text(found, errors="backslashreplace")
    seconds = time.process_time() - begin
    return {"parser": name, "inputs": count, **told, "seconds": seconds}


def _outcome(parser: Parser, text: bytes) -> str:
    """Return how a parser took an input."""
    try:
        parser.parse(text)
    except TulleError as error:
        leaks = not parser.quotes and SECRET in str(error)
        return f"leak {error}" if leaks else "refused"
    except Hang:
        return "hang " + traceback.format_exc()
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic of polars is no Exception
        return "crash " + traceback.format_exc()
    return "accepted"


def _hang(*_: object) -> None:
    raise Hang


# The parsers.


def parsers(folder: Path) -> dict[str, Parser]:
    """Return all of them; ``folder`` is for those that read files."""
    return {
        **_of_text(),
        **_of_tables(folder),
        **_of_baskets(folder),
        **_of_releases(folder),
        **_of_streams(),
        **_of_sites(folder),
    }


_DIGITS = [b"9" * 5_000, b"1e999", b"-0", b"NaN", b"inf", b"0x1", b"1_000", b"\xff", b"\0"]
_CSV = [b'"', b'""', b",", b";", b"\t", b"|", b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf", b"\xff\xfe"]
_CSV += [b'"\n', b",,", b"2024-02-30", b"12:61", b"1,5", SECRET.encode(), "ä€".encode(), *_DIGITS]
_JSON = [b"{", b"}", b"[", b"]", b'"', b":", b",", b"null", b"true", b"\\u0000", b"\\ud800"]
_JSON += [b'{"a":', b"[[", SECRET.encode(), *_DIGITS]


def _of_text() -> dict[str, Parser]:
    import polars as pl

    from tulle.io import _headers as headers
    from tulle.io._json_lines import JsonGuess, JsonReader
    from tulle.io._text import split_records
    from tulle.io._text_types import ALL, ColumnGuess
    from tulle.table._date_format import read_dates
    from tulle.table._number_format import read_numbers

    def records(text: bytes) -> None:
        split = split_records(text, 1_000)
        assert sum(map(len, split.records)) <= len(text)

    def column(text: bytes) -> None:
        series = pl.Series("a", text.decode("latin-1").split("\n"))
        guess = ColumnGuess(ALL)
        guess.update(series)
        series.to_frame().select(guess.expression("a"))

    def header(text: bytes) -> None:
        first, _, second = text.decode("latin-1").partition("\n")
        headers.refuse_no_header("file", first)
        mark = headers.separator_of(first, second or None)
        headers.column_names("file", first.split(mark))

    def lines(text: bytes) -> None:
        if not text.strip():
            return
        guess = JsonGuess("file")
        guess.update(text + b"\n")
        JsonReader(guess.types).read(text.split(b"\n"))

    def numbers(text: bytes) -> None:
        series = pl.Series("a", text.decode("latin-1").split("\n"))
        found = read_numbers(series)
        if found is not None:
            found.format.format(found.format.parse(series))

    def dates(text: bytes) -> None:
        read_dates(pl.Series("a", text.decode("latin-1").split("\n")))

    cells = [
        b"1\n2\n3",
        b"1.5\n-2\n",
        b"2024-01-31\n2024-02-29",
        b"true\nfalse",
        b"12:30\n23:59:59.5",
    ]
    cells += [b"31.12.2024\n01.01.2025", b"2024-01-01T00:00:00Z", b"007\n08", SECRET.encode()]
    table = [b'a,b\n1,"x, y"\n2,z\n', b"a;b\r\n1,5;2\r\n", b'"a""b",c\n"1\n2",3\n']
    rows = [b'{"a": 1, "b": "x"}\n{"a": 2, "b": null}', b'{"a": 1.5}\n{"a": true}']
    rows += [b'{"d": "2024-01-01", "t": "' + SECRET.encode() + b'"}']
    money = [b"1.234,50 EUR\n2,00 EUR", b"$1,000\n$2", b"50 %\n7 %", b"(5)\n6", b"-1'000.5", b"1e5"]
    days = [b"31.12.2024\n1.2.2023", b"12/31/24\n01/02/23", b"3 May 2020\n4 June 2021", b"20240131"]
    return {
        "CSV splitter": Parser(records, table, _CSV, 0.16),
        "types of text": Parser(column, cells, _CSV, 0.04),
        "headers": Parser(header, table, [t for t in _CSV if t != SECRET.encode()], 0.10),
        "NDJSON": Parser(lines, rows, _JSON, 0.04),
        "number formats": Parser(numbers, money, _CSV, 0.005),
        "date formats": Parser(dates, days, _CSV, 0.005),
    }


def _of_tables(folder: Path) -> dict[str, Parser]:
    import polars as pl

    from tulle._checks import check_share
    from tulle.io._csv import CsvReader
    from tulle.io._formats import display_name, format_of, is_sql
    from tulle.io._sql import parse
    from tulle.io.read import read_table
    from tulle.rules.rule import support_count
    from tulle.table.policy import parse_policy

    def fields(text: bytes) -> None:
        reader = CsvReader("file", b"a,b,c\n", b"1,2,3\n")
        whole = text.replace(b"\0", b"").decode("latin-1").encode() + b"\n"
        if whole.count(b'"') % 2:
            whole = whole.replace(b'"', b"", 1)
        found = reader.fields(whole)
        reader.judge(found)
        reader.read(found, {name: guess.result for name, guess in reader.guesses.items()})

    def file(name: str) -> Callable[[bytes], None]:
        path = folder / name

        def read(text: bytes) -> None:
            path.write_bytes(text)
            read_table(path)

        return read

    def policy(text: bytes) -> None:
        parse_policy(text.decode("utf-8", "replace"))

    def address(text: bytes) -> None:
        word = text.decode("latin-1")
        display_name(word)
        format_of(word)
        if is_sql(word):
            parse(word)

    def share(text: bytes) -> None:
        check_share("tulle", "share", text.decode("latin-1"))
        support_count("tulle", text.decode("latin-1"), 100)

    frame = pl.DataFrame({"a": [1, 2, 3], "b": ["x", SECRET, None]})
    parquet, arrow = io.BytesIO(), io.BytesIO()
    frame.write_parquet(parquet)
    frame.write_ipc(arrow)
    rows = [b"1,2,3\n4,x,6", b'"a","b,c",' + SECRET.encode(), b"1.5,2024-01-01,true\n,,\n"]
    tables = [b"a,b\n1," + SECRET.encode() + b"\n2,x\n", b"a;b\n1,5;2\n3,5;4\n", b"a\n1\n2\n"]
    written = [b'[columns.age]\nkind = "integer"\nrole = "target"\nbounds = [0, 120]\n']
    written += [b"[condense]\nk = 10\n[stream]\nevery = 5\n", b'[columns."a.b"]\nweight = 2\n']
    places = [b"postgresql://ann:hunter2@db/clinic#visits", b"sqlite:///x.db#t", b"book.xlsx#a"]
    shares = [b"5%", b"0.001", b"25", b"1/3", b"1e-3"]
    toml = [b"[", b"]", b"[[", b"=", b'"', b"'''", b"a.", b"{", b"}", b"#", b"true", b"1979-05-27"]
    toml += [b"columns", b"role", b"\\u0000", *_DIGITS]
    return {
        "CSV fields": Parser(fields, rows, _CSV, 0.03),
        "CSV files": Parser(file("t.csv"), tables, _CSV, 0.01),
        "Parquet files": Parser(file("t.parquet"), [parquet.getvalue()], _DIGITS, 0.01),
        "Arrow files": Parser(file("t.arrow"), [arrow.getvalue()], _DIGITS, 0.01),
        "addresses": Parser(address, places, [b"://", b"#", b"?", b"@", b":", b"%"], 0.05),
        "shares and counts": Parser(share, shares, [b"%", b"/", b".", b" ", *_DIGITS], 0.05),
        "policies": Parser(policy, written, toml, 0.12, quotes=True),
    }


def _of_baskets(folder: Path) -> dict[str, Parser]:
    from tulle.rules.rule import Rule, read_rules, support_count
    from tulle.transactions import read_fimi

    shop, secret = folder / "shop.dat", folder / "secret.txt"

    def baskets(text: bytes) -> None:
        shop.write_bytes(text)
        read_fimi(shop)

    def rule(text: bytes) -> None:
        Rule(text.decode("latin-1"))

    def rules(text: bytes) -> None:
        secret.write_bytes(text)
        for found in read_rules(secret).rules:
            if found.min_support is not None:
                support_count("hide", found.min_support, 100)

    lines = [b"1 2 3\n2 3\n", b"bread milk\nbeer " + SECRET.encode(), b"0 7?\n1\n"]
    words = [b"bread, milk -> beer", b'"a, b" -> "3"" nails"', b"1 2 -> 3"]
    files = [b"a, b -> c ; support=5%\nkeep: a, b\n# x\n", b"a -> b ; disclosure=25%\n"]
    tokens = [b"->", b",", b'"', b'""', b";", b"#", b"keep:", b" ", b"\n", b"support=", b"%"]
    return {
        "baskets (FIMI)": Parser(baskets, lines, [b" ", b"\n", b"-1", b"?", *_DIGITS], 0.08),
        "rules": Parser(rule, words, [*tokens, *_DIGITS], 0.12, quotes=True),
        "rules files": Parser(rules, files, [*tokens, *_DIGITS], 0.08, quotes=True),
    }


def _of_releases(folder: Path) -> dict[str, Parser]:
    import polars as pl

    from tulle.keys import PublicKey, SecretKey, SigningKey
    from tulle.releases import Manifest
    from tulle.sketch import Sketches

    key = SigningKey.generate()
    made = Manifest("test", {"k": 3}, {"k": 3}, {"checked": True}, columns={"a": {"role": "x"}})
    signed = made.completed(file="r", sha256="0" * 64).signed(key).to_json().encode()

    def manifest(text: bytes) -> None:
        found = Manifest.from_json(text, "file")
        assert isinstance(found.holds, bool)
        assert isinstance(found.signed_by(key.public), bool)

    path, pem = folder / "s.parquet", folder / "key"

    def sketches(text: bytes) -> None:
        path.write_bytes(text)
        Sketches.load(path)

    def keys(text: bytes) -> None:
        pem.write_bytes(text)
        for load in (SecretKey.load, SigningKey.load, PublicKey.load):
            try:
                load(pem)
            except TulleError:
                continue

    packed = io.BytesIO()
    pl.DataFrame({"length": [3] * 5, "sketch": [[1.0] * 3] * 5}).write_parquet(packed)
    saved = []
    for one in (SecretKey.generate(), key, key.public):
        one.save(pem, force=True)
        saved.append(pem.read_bytes())
    return {
        "manifests": Parser(manifest, [signed], _JSON, 0.08),
        "sketches": Parser(sketches, [packed.getvalue()], [b"PAR1", *_DIGITS], 0.02),
        "keys": Parser(keys, saved, [b"-----", b"\n", b"=", *_DIGITS], 0.01),
    }


def _of_streams() -> dict[str, Parser]:
    import numpy as np
    import polars as pl

    from tulle.stream import StreamCondenser
    from tulle.stream._saved import load_state, read_parts, to_bytes, write_state

    rng = np.random.default_rng(0)
    table = pl.DataFrame({"a": rng.normal(size=80), "b": rng.choice(["x", "y"], 80)})
    condenser = StreamCondenser(k=5, init_size=40, random_state=0).partial_fit(table)
    write_state(file := io.BytesIO(), condenser, None, plain=True)
    state = file.getvalue()
    header, arrays = read_parts(io.BytesIO(state))
    text = json.dumps(header).encode()

    def raw(content: bytes) -> None:
        load_state(StreamCondenser, io.BytesIO(content), key=None)

    def crafted(content: bytes) -> None:
        entries = json.loads(text)
        _change(entries, random.Random(content))
        raw(to_bytes(entries, arrays))

    return {
        "states": Parser(raw, [state], [b"PK\x05\x06", *_DIGITS], 0.02),
        "states, checksums right": Parser(crafted, [text], _JSON, 0.01),
    }


_ODD = (
    None,
    True,
    -1,
    0,
    2**70,
    0.5,
    float("nan"),
    "",
    "x",
    SECRET,
    [],
    {},
    [[]],
    {"a": 1},
    "Int64",
)


def _change(entries: Any, chance: random.Random) -> None:
    """Replace, remove or double entries of nested JSON values at random places."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        place = entries
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = chance.choice(keys)
            if not isinstance(place[key], dict | list) or chance.random() < 0.3:
                kind = chance.randrange(4)
                if kind == 0:
                    del place[key]
                elif kind == 1 and isinstance(place, list):
                    place.append(place[key])
                else:
                    place[key] = deepcopy(chance.choice(_ODD))  # later changes are its own
                break
            place = place[key]


def _of_sites(folder: Path) -> dict[str, Parser]:
    import polars as pl

    from tulle import SecretKey, SiteAgreement, SiteCodec, SiteSummary
    from tulle.sites._sealed import unseal

    table = pl.DataFrame({"age": [20, 30, 40, 50], "ill": ["a", "b", "a", "c"]})
    summary = SiteSummary.of(table)
    summary.save(folder / "summary.json")
    made = (folder / "summary.json").read_bytes()
    key = SecretKey.generate()
    agreement = SiteAgreement.from_summaries([summary])
    agreement.save(folder / "agreement", key)
    sealed = (folder / "agreement").read_bytes()
    codec = SiteCodec(agreement, random_state=0).learn(table)
    codes = codec.transform(table)

    def opened(text: bytes) -> None:
        unseal(text, "site agreement", key)

    def told(text: bytes) -> None:
        (folder / "summary.json").write_bytes(text)
        SiteSummary.load(folder / "summary.json")

    def decoded(text: bytes) -> None:
        codec.decode_text(text.decode("latin-1"))

    def decoded_json(text: bytes) -> None:
        entries = json.loads(found)
        _change(entries, random.Random(text))
        codec.decode_json(entries)

    (name_age, name_ill), row = codes.columns, codes.row(0)
    tree = f"|--- {name_age} <= 2.50\n|   |--- class: {row[1]}\n|--- {name_age} > 2.50\n".encode()
    found = json.dumps({"rules": [{"if": [name_ill, row[1]], "then": [name_age, row[0]]}]}).encode()
    names = [name_age.encode(), name_ill.encode(), str(row[1]).encode(), b"<=", b"(1.5, 2.5]"]
    return {
        "agreements": Parser(opened, [sealed], _JSON, 0.03),
        "summaries": Parser(told, [made], _JSON, 0.03),
        "site results, text": Parser(decoded, [tree], [*names, *_DIGITS], 0.02),
        "site results, JSON": Parser(decoded_json, [found], [*names, *_JSON], 0.02),
    }


def main(
    quick: bool, inputs: int = 1_000_000, seed: int = SEED, names: list[str] | None = None
) -> None:
    """Fuzz the named parsers, or all."""
    signal.signal(signal.SIGPROF, _hang)
    warnings.simplefilter("ignore")
    total = 2_000 if quick else inputs
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as place, libraries_silenced():
        known = parsers(Path(place))
        whole = sum(parser.share for parser in known.values())
        rows = []
        for name, parser in known.items():
            if names and name not in names:
                continue
            count = max(1, round(total * parser.share / whole))
            row = fuzzed(name, parser, count, seed, Path("fuzz-crashes"))
            print(row, flush=True)
            rows.append(row)
    _write(rows, quick=quick, seed=seed)


def _write(rows: list[dict[str, Any]], *, quick: bool, seed: int) -> None:
    outcomes = ("accepted", "refused", "crash", "hang", "leak")
    columns = ("inputs", *outcomes, "seconds")
    every = {name: sum(row.get(name, 0) for row in rows) for name in columns}
    table = [
        [row["parser"], f"{row['inputs']:,}", *(f"{row.get(name, 0):,}" for name in outcomes)]
        + [round(1e6 * row["seconds"] / row["inputs"])]
        for row in [*rows, {"parser": "**all**", **every}]
    ]
    write_table(
        "fuzz",
        "Fuzzed parsers",
        ["parser", "inputs", "accepted", "refused", "crashes", "hangs", "leaks", "µs per input"],
        table,
        notes="Examples of each format after one to eight random changes: flipped bits, bytes, "
        "tokens once or hundreds of times, pieces of other examples, numbers of 5,000 digits. "
        "Refused: a `TulleError` without a cell. Crash: any other exception. Hang: more than 5 CPU "
        "seconds. Leak: a message that holds a cell of the input.",
        packages=("polars", "numpy"),
        seed=seed,
        quick=quick,
    )


if __name__ == "__main__":
    given = sys.argv[1:]
    options = {
        name: int(given[given.index(f"--{name}") + 1])
        for name in ("inputs", "seed")
        if f"--{name}" in given
    }
    chosen = [word for word in given if not word.startswith("--") and not word.isdigit()]
    main("--quick" in given, names=chosen, **options)
