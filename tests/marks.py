"""Which tests are slow, which need a server or a browser, and which properties are fuzzed.

Entries are files, or tests as ``file::test``, below this folder. ``make quick`` leaves out what is
slow or needs a server or a browser; ``make fuzz`` runs the guarantees on many random examples.
Look at ``pytest --durations=50`` when the quick half takes longer than a minute.
"""

from __future__ import annotations

BROWSER = ["report/test_browser.py"]

SERVER = ["workflows/test_stream_broker.py"]  # and whatever asks for the fixture `postgres`

SLOW: list[str] = []

GUARANTEES = [
    # groups are as large as each of their records asks for, and keep their moments
    "condense/test_condenser.py::test_every_level_is_met",
    "condense/test_class_condenser.py::test_approximate_gcd_fits_every_class",
    "condense/test_tiers.py::test_every_tier_can_stand_alone_where_all_together_can",
    "condense/test_grouping_kernels.py::test_large_groupings_are_valid_and_exchanges_never_add_error",
    "condense/test_grouping_kernels.py::test_the_search_for_the_best_groups_stays_valid",
    "condense/test_synthesis.py::test_exact_moments_are_exact_for_any_sizes",
    "test_moments.py::test_moments_equal_those_of_each_group_taken_apart",
    "test_moments.py::test_halves_pool_to_the_whole",
    # streams lose no record, and two snapshots differ by valid groups
    "condense/test_stream_state.py::test_nothing_is_lost_and_few_wait",
    "condense/test_stream_state.py::test_inserts_splits_and_merges_conserve_all_sums",
    "condense/test_stream_state.py::test_batches_and_single_records_give_the_same_bits",
    "condense/test_stream_state.py::test_any_two_snapshots_differ_by_valid_groups_of_newcomers",
    "condense/test_stream_state.py::test_snapshots_depend_on_newcomers_through_their_sums_only",
    # hidden rules are below the thresholds, and nothing gives them away
    "rules/test_thresholds.py::test_hidden_with_a_margin_is_below_that_share_of_the_threshold",
    "rules/test_methods.py::test_swa",
    "rules/test_methods.py::test_two_scan_methods",
    "rules/test_methods.py::test_verykios_removals",
    "rules/test_methods.py::test_algo1a_only_adds_until_confidence_falls",
    "rules/test_methods.py::test_blocking_makes_rules_uncertain_and_tells_no_lie",
    "rules/test_patterns.py::test_no_inference_regains_a_sensitive_set",
    # sketches have no more components than the promise allows
    "sketch/test_lengths.py::test_delta_length_is_the_largest_that_keeps_the_promise",
    "sketch/test_lengths.py::test_every_directed_pair_holds_and_no_length_could_be_larger",
    "sketch/test_pairs.py::test_variance_is_never_overstated_and_the_gap_never_understated",
    # codes lead back, and summaries show no extreme
    "sites/test_codec.py::test_round_trip_is_exact_for_every_type",
    "sites/test_codec.py::test_any_decimal_comes_back_within_floating_point",
    "sites/test_grading.py::test_codes_increase_and_lead_back",
    "sites/test_summary.py::test_no_end_of_a_range_is_an_extreme",
    # public reports show no small group
    "report/test_render.py::test_hidden_cells_cannot_be_had_by_subtraction",
    "auditing/test_bars.py::test_outer_bars_hold_k_released_records_and_all_records_are_in_bars",
    # tables are read as they are, or refused
    "tables/test_reading.py::test_csv_is_refused_or_read_as_pythons_reader_does",
    "tables/test_reading.py::test_no_bytes_bring_anything_but_a_table_or_a_clear_word",
    "tables/test_writing.py::test_types_dates_and_missing_values_survive",
    "tables/test_policy.py::test_a_policy_comes_back_as_it_was_written",
]
