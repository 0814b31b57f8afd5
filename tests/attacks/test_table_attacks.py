"""Calibration: on an unprotected copy every attack must nearly always succeed, on unrelated data
it must not beat guessing; and it must see the difference between bad and good releases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from benchmarks.broken_releases import measured, own_planes
from tulle._attacks import AttackResult
from tulle._attacks.inference import _answers, inference
from tulle._attacks.linkage import (
    _IMPROBABLE,
    BEYOND_CHANCE,
    _chance,
    closest_distances,
    exact_copies,
    linkage,
    near_copies,
)
from tulle._attacks.membership import (
    _in_cells,
    _surplus,
    area_under_curve,
    combined,
    learnt,
    membership,
)
from tulle._attacks.records import Records
from tulle._attacks.result import Scene
from tulle._attacks.singling_out import singling_out
from tulle._report.verdict import grade
from tulle.errors import DataError

Attack = Callable[[Records, Records, Records, np.random.Generator], AttackResult]

ATTACKS: dict[str, Attack] = {
    "exact copies": lambda o, r, c, g: exact_copies(Scene(o, r, c), g),
    "near copies": lambda o, r, c, g: near_copies(Scene(o, r, c), g),
    "linkage": lambda o, r, c, g: linkage(Scene(o, r, c), g),
    "linkage, some columns": lambda o, r, c, g: linkage(
        Scene(o, r, c), g, known=["n0", "n1", "c0"]
    ),
    "one to one": lambda o, r, c, g: linkage(Scene(o, r, c), g, one_to_one=True),
    "inference, number": lambda o, r, c, g: inference(Scene(o, r, c), "n2", g),
    "inference, category": lambda o, r, c, g: inference(Scene(o, r, c), "c1", g),
    "membership": lambda o, r, c, g: membership(Scene(o, r, c), g),
    "singling out": lambda o, r, c, g: singling_out(Scene(o, r, c), g),
}


def people(rng: np.random.Generator, count: int = 400, shift: float = 0.0) -> Records:
    numbers = rng.standard_normal((count, 3)) + shift
    numbers[:, 2] = 0.5 * numbers[:, 0] + numbers[:, 2]
    codes = np.column_stack([rng.integers(0, 4, count), numbers[:, 1] > 0])
    return Records(numbers, codes, ("n0", "n1", "n2"), ("c0", "c1"))


def shuffled(records: Records, rng: np.random.Generator) -> Records:
    return records.take(rng.permutation(len(records)))


@pytest.fixture
def data() -> tuple[Records, Records, np.random.Generator]:
    rng = np.random.default_rng(20)
    return people(rng), people(rng), rng


@pytest.mark.parametrize("name", ATTACKS)
def test_an_unprotected_copy_is_nearly_always_broken(name: str, data: tuple) -> None:
    original, control, rng = data
    result = ATTACKS[name](original, shuffled(original, rng), control, rng)
    assert result.rate > 0.95
    assert not result.failed
    assert result.rate - result.baseline > 0.3
    assert result.risk > 0.1 if "category" in name else result.risk > 0.8


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("kind", ["other people", "scrambled", "far away"])
def test_unrelated_data_do_not_beat_guessing(name: str, kind: str, data: tuple) -> None:
    original, control, rng = data
    if kind == "other people":
        # related in law, though to nobody in the data: the control must see nothing
        result = ATTACKS[name](original, people(rng), control, rng)
        assert result.risk_interval.low < 0.02
        return
    rng = np.random.default_rng(2)
    release = original.scrambled(rng) if kind == "scrambled" else people(rng, shift=20.0)
    result = ATTACKS[name](original, release, control, rng)
    if (kind, name) == ("scrambled", "membership"):
        # shuffled columns hold nobody's record, but everybody's own numbers
        assert result.details["most telling"] == "own numbers"
        return
    assert result.failed
    assert result.note.startswith("the attack failed")


@pytest.mark.parametrize("name", [name for name in ATTACKS if name != "exact copies"])
def test_a_whisper_of_noise_protects_nobody(name: str, data: tuple) -> None:
    original, control, rng = data
    noise = rng.normal(0, 0.001, original.numbers.shape)
    release = Records(
        original.numbers + noise, original.codes, original.number_names, original.code_names
    )
    result = ATTACKS[name](original, shuffled(release, rng), control, rng)
    assert result.rate > 0.9
    assert not result.failed


@pytest.mark.parametrize("name", ATTACKS)
def test_the_same_seed_gives_the_same_figures(name: str, data: tuple) -> None:
    original, control, rng = data
    release = shuffled(original, rng)
    first, second = (
        ATTACKS[name](original, release, control, np.random.default_rng(3)) for _ in range(2)
    )
    assert first == second


def test_attempts_are_sampled_but_never_the_release(data: tuple) -> None:
    original, control, rng = data
    strangers = people(rng, 2000, shift=3.0)
    last = Records(
        np.vstack([strangers.numbers, original.numbers]),
        np.vstack([strangers.codes, original.codes]),
        original.number_names,
        original.code_names,
    )
    result = linkage(Scene(original, last, control, 50), rng)
    assert result.attempts == 50
    assert result.rate == 1  # each copy is found, wherever it stands


def test_a_person_with_a_twin_cannot_be_linked() -> None:
    twins = Records.of_numbers(np.repeat(np.arange(10.0), 2)[:, None])
    rng = np.random.default_rng(0)
    assert linkage(Scene(twins, twins), rng).rate == 0
    assert exact_copies(Scene(twins, twins), rng).rate == 1


def test_one_to_one_resolves_what_nearest_confuses() -> None:
    original = Records.of_numbers(np.array([[0.0], [1.0], [5.0], [9.0]]))
    release = Records.of_numbers(np.array([[0.6], [1.2], [5.1], [9.1]]))
    rng = np.random.default_rng(0)
    # 0.6 is nearest to 1 as well as to 0; only 1.2, 5.1 and 9.1 lie near enough to be somebody's
    assert linkage(Scene(original, release), rng).successes == 3
    assert linkage(Scene(original, release), rng, one_to_one=True).successes == 3
    crossed = Records.of_numbers(np.array([[0.9], [1.05], [5.1], [9.1]]))
    assert linkage(Scene(original, crossed), rng, one_to_one=True).successes == 3


def test_inference_of_a_number_with_missing_values_reads_missing_too() -> None:
    rng = np.random.default_rng(5)
    known, missing = rng.standard_normal(200), rng.random(200) < 0.4
    records = Records(
        np.column_stack([np.where(missing, 0.0, known), np.arange(200.0)]),
        missing[:, None],
        ("secret", "key"),
        ("secret",),
    )
    result = inference(Scene(records, records), "secret", rng)
    assert result.rate == 1
    assert result.baseline == pytest.approx(missing.mean())


@given(heap=st.floats(-3, 3), above=st.booleans())
def test_guessing_is_right_about_a_heap_at_the_edge_of_its_window(heap: float, above: bool) -> None:
    rng = np.random.default_rng(0)
    spread = rng.uniform(0.05, 0.2, 30) * (1 if above else -1)
    secret = np.concatenate([np.full(70, heap), heap + spread])
    records = Records(secret[:, None], rng.integers(0, 3, (100, 1)), ("secret",), ("other",))
    shuffled_on_their_own = records.scrambled(rng)
    assert inference(Scene(records, shuffled_on_their_own), "secret", rng).baseline >= 0.7


def test_inference_guesses_as_well_as_one_answer_can() -> None:
    column = np.array([0.0] * 60 + [5.0] * 40)
    records = Records(column[:, None], np.zeros((100, 0)), ("x",), ())
    constant = Records(np.column_stack([column, np.zeros(100)]), np.zeros((100, 0)), ("x", "y"), ())
    result = inference(Scene(constant, constant), "x", np.random.default_rng(0))
    assert result.baseline == pytest.approx(0.6)
    assert records.columns == ("x",)


def test_membership_needs_a_control_worth_the_name(data: tuple) -> None:
    original, _, rng = data
    with pytest.raises(DataError, match="least 20 .*5"):
        membership(Scene(original, original, people(rng, 5)), rng)


def test_nobody_is_singled_out_where_nobody_is_alone() -> None:
    alike = Records(np.zeros((20, 1)), np.zeros((20, 1)), ("a",), ("b",))
    assert singling_out(Scene(alike, alike), np.random.default_rng(0)) is None


def test_the_closest_released_record_of_a_copy_is_at_no_distance(data: tuple) -> None:
    original, control, rng = data
    assert closest_distances(original, original, rng).max() == 0
    assert closest_distances(control, original, rng).min() > 0


@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.booleans())
def test_the_secret_of_records_alike_is_the_commonest_or_the_median(
    count: int, seed: int, numeric: bool
) -> None:
    rng = np.random.default_rng(seed)
    known, secret = rng.integers(0, 3, (count, 2)), rng.integers(0, 4, count)
    gone = rng.random(count) < 0.3
    if numeric:
        numbers = np.where(gone, 0.0, secret)[:, None]
        codes = np.column_stack([known, gone])
        release = Records(numbers, codes, ("s",), ("a", "b", "s"))
    else:
        release = Records(np.empty((count, 0)), np.column_stack([known, secret]), (), tuple("abs"))
    seen, answers = _answers(release.only("ab"), release.only("s"))
    assert len(seen) == len(np.unique(known, axis=0))
    for row in range(len(seen)):
        alike = (known == seen.codes[row]).all(axis=1)
        if not numeric:
            counts = np.bincount(secret[alike])
            assert counts[answers.codes[row, 0]] == counts.max()
        elif gone[alike].sum() > (~gone[alike]).sum():
            assert answers.codes[row, 0] == 1
        else:
            present = np.sort(secret[alike & ~gone])
            assert answers.codes[row, 0] == 0
            assert answers.numbers[row, 0] == present[(len(present) - 1) // 2]


def test_where_records_are_alike_their_order_says_nothing() -> None:
    rng = np.random.default_rng(4)
    area, ill = rng.integers(0, 5, 600), rng.random(600) < 0.3
    people = Records(np.empty((600, 0)), np.column_stack([area, ill]), (), ("area", "ill"))
    orders = [np.argsort(ill), np.argsort(~ill), rng.permutation(600)]
    found = {inference(Scene(people, people.take(order)), "ill", rng).rate for order in orders}
    assert found == {float((~ill).mean())}  # no more than guessing gets


def test_strangers_who_are_alike_do_not_compete_for_a_record() -> None:
    original = Records.of_numbers(np.array([[0.0], [10.0], [20.0]]))
    release = Records.of_numbers(np.array([[0.1], [14.9], [30.1]]))
    strangers = Records.of_numbers(np.array([[15.0], [15.0], [30.0], [30.0]]))
    rng = np.random.default_rng(0)
    assert linkage(Scene(original, release, strangers), rng, one_to_one=True).control == 1


@pytest.mark.parametrize("people, strangers, both", [(60, 30, 7), (40, 40, 25), (300, 20, 12)])
def test_copies_by_chance_raise_few_alarms(people: int, strangers: int, both: int) -> None:
    """Of all ways to be a member or not, at most one in a hundred is called improbable."""
    law = hypergeom(people + strangers, people, both)
    counts = range(max(0, both - strangers), min(people, both) + 1)
    found = [_chance(n, people, both - n, strangers) for n in counts]
    assert found == pytest.approx([law.sf(n - 1) for n in counts])
    assert sum(law.pmf(n) for n, chance in zip(counts, found) if chance < _IMPROBABLE) <= 0.01


def test_a_few_records_of_people_are_no_chance() -> None:
    rng = np.random.default_rng(0)
    drawn = (Records.of_numbers(rng.normal(size=(n, 3))) for n in (600, 300, 600))
    members, control, others = drawn
    harmless = exact_copies(Scene(members, others, control), rng)
    assert not harmless.details
    few = members.take(np.arange(15)).stacked(others)
    leaky = exact_copies(Scene(members, few, control), rng)
    assert leaky.details[BEYOND_CHANCE] == pytest.approx(15 / 615)
    assert grade("exact_copies", leaky.to_dict(), 20) == "notable"
    sample = exact_copies(Scene(members, members.take(np.arange(30)), control), rng)
    assert sample.details[BEYOND_CHANCE] == 1
    assert grade("exact_copies", sample.to_dict(), 20) == "grave"


def test_ten_people_are_no_chance_where_nobody_has_a_twin() -> None:
    rng = np.random.default_rng(0)
    members, control, others = (
        Records.of_numbers(rng.normal(size=(n, 3))) for n in (600, 300, 600)
    )
    few = members.take(np.arange(10)).stacked(others.take(np.arange(590)))
    leaky = exact_copies(Scene(members, few, control), rng)
    assert _chance(10, 600, 0, 300) > _IMPROBABLE  # not by the control alone
    assert grade("exact_copies", leaky.to_dict(), 20) == "notable"


@pytest.mark.parametrize("values", [5, 12, 40])
def test_other_people_raise_no_alarm_however_dense_the_table(values: int) -> None:
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        members, control, others = (
            Records.of_numbers(rng.integers(0, values, (n, 3)).astype(float)) for n in (60, 30, 60)
        )
        alarms += bool(exact_copies(Scene(members, others, control), rng).details)
    assert alarms <= 2


# Membership: traces, and what is learnt of them.


@pytest.mark.slow
def test_a_release_that_leans_on_people_is_told_where_one_trace_is_not_enough() -> None:
    """Planes of 20 people each: every trace tells a little, all together much more."""
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        people, strangers = measured(rng, 400), measured(rng, 400)
        release = own_planes(people, 20, rng)
        tables = (of_scale(table, people) for table in (people, release, strangers))
        found.append(membership(Scene(*tables), rng))
    assert np.mean([result.risk for result in found]) > 0.15
    assert np.mean([result.details["membership_auc"] for result in found]) > 0.6
    assert all(result.attempts == 400 for result in found)  # nobody is spent on the list alone


def of_scale(table: np.ndarray, like: np.ndarray) -> Records:
    return Records.of_numbers((table - like.mean(axis=0)) / like.std(axis=0))


@pytest.mark.slow
def test_people_who_are_not_in_it_raise_no_alarm() -> None:
    """Of 100 releases of other people none is graded, among as many attacks as an audit tries."""
    excess, grades = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        members, release, control = (people(rng, 60) for _ in range(3))
        result = membership(Scene(members, release, control), rng)
        excess.append(result.rate - (result.control or 0))
        grades.append(grade("membership", result.to_dict(), 12))
    assert sum(found in ("notable", "grave") for found in grades) <= 1
    assert abs(np.mean(excess)) < 0.03
    assert np.std(excess) < 0.12  # 0.091 if all attempts were independent


def test_a_notable_excess_that_may_be_chance_is_not_decided() -> None:
    figures = AttackResult("membership", 60, 36, 30, 24).to_dict()
    assert figures["risk"] == pytest.approx(0.2)
    assert grade("membership", figures, 12) == "undecided"
    assert grade("membership", AttackResult("membership", 60, 32, 30, 28).to_dict(), 12) == ""
    many = AttackResult("membership", 2000, 1200, 1000, 800).to_dict()
    assert grade("membership", many, 12) == "notable"


def test_weights_follow_what_each_trace_tells() -> None:
    rng = np.random.default_rng(0)
    member = np.repeat([True, False], 300)
    found = {
        "much": rng.normal(size=600) + member,
        "little": rng.normal(size=600) + 0.3 * member,
        "against": rng.normal(size=600) - member,
        "own numbers": rng.normal(size=600),
    }
    weights = learnt(found, member)
    assert weights["much"] > 4 * weights["little"] > 4 * weights["against"] > 0
    assert weights["own numbers"] < weights["little"]
    areas = [
        area_under_curve(score[member], score[~member])
        for score in (combined(found, weights), combined(found), found["much"])
    ]
    assert areas[0] > max(areas[1:])
    assert combined({"own numbers": found["much"], "little": found["little"]}) == pytest.approx(
        (found["little"] - found["little"].mean()) / found["little"].std()
    )  # without anything learnt, what tells of copies only is left out


def test_counts_of_cells_are_those_of_slow_code() -> None:
    rng = np.random.default_rng(3)
    tables = [people(rng, count) for count in (20, 50, 30)]
    cells = _in_cells(tables, 4)
    sets = [np.array([0, 3]), np.array([1, 2, 4])]
    expected = np.zeros(20)
    for some in sets:
        for row in range(20):
            held, usual = (
                sum((other == cells[0][row, some]).all() for other in table[:, some])
                for table in cells[1:]
            )
            expected[row] += np.log((held + 0.5) / (usual * 50 / 30 + 0.5))
    assert _surplus(cells, sets, 0.5, rng) == pytest.approx(expected / 2)


def test_a_copy_that_strangers_have_as_well_tells_next_to_nothing() -> None:
    dense = AttackResult("exact_copies", 5_000, 3_700, 0, control_successes=3_500).to_dict()
    sparse = AttackResult("exact_copies", 5_000, 300, 0, control_successes=100).to_dict()
    assert dense["risk"] == pytest.approx(sparse["risk"])
    assert grade("exact_copies", dense, 20) == ""
    assert grade("exact_copies", sparse, 20) == "notable"
