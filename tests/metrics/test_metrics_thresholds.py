from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.metrics.catalog import AT_K, DEFAULT_DISTILL_GATES, METRICS, SECTION_STAGES, SECTIONS, metrics_of
from pytest_memeval.metrics.thresholds import (
    LEVELS,
    OPERATORS,
    MetricPath,
    Threshold,
    ThresholdError,
    parse_bound,
    parse_gate,
    parse_path,
    parse_threshold,
)
from pytest_memeval.values import ALL_STAGES


def path_of(base: str) -> str:
    """A full path for a metric of the catalogue."""
    keys = METRICS[base].keys
    key = "" if keys is None else ".store" if keys == "action" else ".family"
    return base + ("@10" if base in AT_K else "") + key


full_paths = st.sampled_from([path_of(base) for base in METRICS])
filters = st.sampled_from(["", "{difficulty=hard}", "{source=real, tag=slow}"])
numbers = st.floats(allow_nan=False, allow_infinity=False)


class TestPaths:
    @pytest.mark.parametrize("base", METRICS)
    def test_every_metric_of_the_catalogue_can_be_named(self, base: str) -> None:
        path = parse_path(path_of(base))
        assert path.base == base
        assert path.spec is METRICS[base]

    def test_parts(self) -> None:
        path = parse_path("search.ndcg@10{difficulty=hard, source=real}")
        assert (path.section, path.metric, path.k, path.key) == ("search", "ndcg", 10, None)
        assert path.filters == (("difficulty", "hard"), ("source", "real"))
        assert path.name == "ndcg@10"
        keyed = parse_path("l1.per_dimension_f1.tech_stack")
        assert (keyed.key, keyed.name) == ("tech_stack", "per_dimension_f1.tech_stack")

    @given(full_paths, filters)
    def test_text_reads_back(self, text: str, block: str) -> None:
        path = parse_path(text + block)
        assert parse_path(str(path)) == path

    @pytest.mark.parametrize("text", ["rag.my_own", "rag.faithfulness", "metrics.my_own@3", "locomo.f1.multi-hop"])
    def test_open_sections_take_any_metric(self, text: str) -> None:
        assert str(parse_path(text)) == text

    def test_what_is_known_of_an_open_sections_metric_bounds_its_thresholds(self) -> None:
        assert parse_path("rag.my_own").spec is None
        assert parse_threshold("rag.my_own", ">= 80").number == 80
        with pytest.raises(ThresholdError, match=r"80 is out of range: rag\.faithfulness lies in 0 to 1"):
            parse_threshold("rag.faithfulness", ">= 80")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("l1.dimension_mikro_f1", "did you mean 'l1.dimension_micro_f1'"),
            ("l2.sektion_hit_rate", "did you mean 'l2.section_hit_rate'"),
            ("l11.dimension_micro_f1", "unknown section 'l11'.*did you mean 'l1.dimension_micro_f1'"),
            ("l1", "not a metric path"),
            ("", "not a metric path"),
            ("l1.", "not a metric path"),
            ("l1.memory_recall@5", "takes no cut-off @5"),
            ("search.ndcg@0", "at least 1"),
            ("search.ndcg", "write search.ndcg@10"),
            ("search.ndcg@" + "9" * 5000, "the cut-off of search.ndcg@k is too large: it is at most 999999"),
            ("search.ndcg@99999999999999999999", "the cut-off of search.ndcg@k is too large: it is at most 999999"),
            ("search.ndcg@1000000", "the cut-off of search.ndcg@k is too large: it is at most 999999"),
            ("l1.memory_recall.family", "no values by key"),
            ("l1.per_dimension_f1", "write l1.per_dimension_f1.<dimension>"),
            ("l15.action_precision.stroe", "did you mean 'store'"),
            ("l1.memory_recall{difficulty=hrad}", "unknown difficulty 'hrad'; did you mean 'hard'"),
            ("l1.memory_recall{dificulty=hard}", "unknown filter field 'dificulty'; did you mean 'difficulty'"),
            ("l1.memory_recall{}", "a filter is"),
            ("l1.memory_recall{difficulty}", "a filter is"),
            ("l1.memory_recall{difficulty=}", "a filter is"),
            ("l1.memory_recall{difficulty=hard", "not a metric path"),
        ],
    )
    def test_f05_unknown_paths_name_the_nearest(self, text: str, message: str) -> None:
        with pytest.raises(ThresholdError, match=message):
            parse_path(text)

    @given(st.text() | st.text(alphabet="l1.@{}=, f"))
    def test_any_text_is_a_path_or_a_threshold_error(self, text: str) -> None:
        try:
            path = parse_path(text)
        except ThresholdError:
            return
        assert path.section in SECTIONS


class TestBounds:
    @pytest.mark.parametrize(
        ("text", "bound"),
        [
            (">= 0.6", (">=", 0.6)),
            ("<=10", ("<=", 10)),
            (" > .5 ", (">", 0.5)),
            ("< 3.", ("<", 3)),
            (">= 1e-1", (">=", 0.1)),
            (">= -2", (">=", -2)),
        ],
    )
    def test_f03_a_threshold_is_a_number(self, text: str, bound: tuple[str, float]) -> None:
        assert parse_bound(text) == bound

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("0.6", "is not a threshold"),
            ("== 0.6", "is not a threshold"),
            (">= ", "is not a threshold"),
            (">=", "is not a threshold"),
            ("> = 0.6", "is not a threshold"),
            (">== 0.6", "is not a threshold"),
            (">= 0.6 0.7", "is not a threshold"),
            ("=> 0.6", "is not a threshold"),
            (">= high", "'high' in '>= high' is not a number"),
            (">= nan", "not a number"),
            (">= inf", "not a number"),
            (">= 1e999", "not a number"),
            (">= 0x10", "not a number"),
            (">= 1_000", "not a number"),
            (">= 75%", "not a number"),
        ],
    )
    def test_bad_bounds(self, text: str, message: str) -> None:
        with pytest.raises(ThresholdError, match=message):
            parse_bound(text)

    def test_f25_tolerance(self) -> None:
        at_least = parse_threshold("l1.dimension_micro_f1", ">= 0.8")
        assert at_least.holds((0.7 + 0.8 + 0.9) / 3)
        assert at_least.holds(0.1 + 0.7)
        assert at_least.holds(0.8 - 9e-10)
        assert not at_least.holds(0.8 - 1.1e-9)
        assert not at_least.holds(0.7996)
        assert parse_threshold("l1.priority_mae", "<= 5").holds(5 + 9e-10)
        assert not parse_threshold("l1.priority_mae", "<= 5").holds(5.00001)

    def test_strict_operators_leave_equal_numbers_out(self) -> None:
        above, below = (Threshold(parse_path("l1.memory_recall"), op, 0.8) for op in (">", "<"))
        for value in (0.8, 0.1 + 0.7, 0.8 + 5e-10, 0.8 - 5e-10):
            assert not above.holds(value)
            assert not below.holds(value)
        assert above.holds(0.80001)
        assert below.holds(0.79999)

    @given(numbers)
    def test_f02_nan_holds_nothing(self, number: float) -> None:
        for op in OPERATORS:
            assert not Threshold(MetricPath("l1", "memory_recall"), op, number).holds(math.nan)

    @given(numbers, numbers)
    def test_operators_complement_each_other(self, value: float, number: float) -> None:
        path = MetricPath("l1", "memory_recall")
        assert Threshold(path, ">=", number).holds(value) != Threshold(path, "<", number).holds(value)
        assert Threshold(path, "<=", number).holds(value) != Threshold(path, ">", number).holds(value)


class TestGates:
    def test_parts(self) -> None:
        gate = parse_gate("P0 l1.dimension_micro_f1 >= 0.75", "ini")
        assert (gate.level, gate.path.base, gate.threshold.op, gate.threshold.number, gate.origin) == (
            "P0",
            "l1.dimension_micro_f1",
            ">=",
            0.75,
            "ini",
        )
        assert str(gate) == "P0 l1.dimension_micro_f1 >= 0.75"

    @pytest.mark.parametrize(
        "text",
        [
            "P1 l1.memory_recall{difficulty=hard}>=0.5",
            "  P1\tl1.memory_recall{difficulty=hard}   >=   0.5  ",
            "P1 l1.memory_recall {difficulty=hard} >= 0.5",
        ],
    )
    def test_white_space(self, text: str) -> None:
        if ".memory_recall {" in text:
            with pytest.raises(ThresholdError, match="a gate is"):
                parse_gate(text)
        else:
            assert str(parse_gate(text)) == "P1 l1.memory_recall{difficulty=hard} >= 0.5"

    @given(st.sampled_from(LEVELS), full_paths, filters, st.sampled_from(OPERATORS), numbers)
    def test_f25_text_reads_back_as_the_same_gate(
        self, level: str, path: str, block: str, op: str, number: float
    ) -> None:
        spec = parse_path(path).spec
        if spec is not None and not spec.low <= number <= (math.inf if spec.high is None else spec.high):
            with pytest.raises(ThresholdError, match="out of range"):
                parse_gate(f"{level} {path}{block} {op} {number!r}")
            return
        gate = parse_gate(f"{level} {path}{block} {op} {number!r}")
        assert parse_gate(str(gate)) == gate

    @pytest.mark.parametrize(
        "text", ["P0 l1.memory_recall >= 70", "P0 l2.section_misentry_rate <= 5", "P0 l1.priority_mae <= -1"]
    )
    def test_a_number_that_the_metric_can_never_reach_or_miss_is_refused(self, text: str) -> None:
        with pytest.raises(ThresholdError, match=r"out of range: l\d\.\w+ lies in 0"):
            parse_gate(text)

    def test_f25_close_numbers_look_different(self) -> None:
        texts = [str(parse_gate(f"P0 l1.priority_mae >= {number}")) for number in ("0.8", "0.79999996", "10", "10.0")]
        assert texts[0] != texts[1]
        assert texts[2] == texts[3] == "P0 l1.priority_mae >= 10"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "starts with its level"),
            ("P3 l1.memory_recall >= 0.5", "starts with its level .P0, P1, P2., not with 'P3'"),
            ("l1.memory_recall >= 0.5", "starts with its level"),
            ("P0", "a gate is"),
            ("P0 l1.memory_recall", "a gate is"),
            ("P0 >= 0.5", "a gate is"),
            ("P0 l1.memory_recall = 0.5", "is not a threshold"),
            ("P0 l1.memory_recall ≥ 0.5", "a gate is"),
            ("P0 l1.memory_recal >= 0.5", "did you mean 'l1.memory_recall'"),
        ],
    )
    def test_f05_bad_gates(self, text: str, message: str) -> None:
        with pytest.raises(ThresholdError, match=message):
            parse_gate(text)

    @given(st.text() | st.text(alphabet="P01l.<>= {}"))
    def test_any_text_is_a_gate_or_a_threshold_error(self, text: str) -> None:
        for candidate in (text, f"P0 {text}", f"P0 l1.memory_recall {text}"):
            try:
                gate = parse_gate(candidate)
            except ThresholdError:
                continue
            assert gate.level in LEVELS


class TestCatalogue:
    def test_default_gates_can_be_read(self) -> None:
        gates = [parse_gate(text, "default") for text in DEFAULT_DISTILL_GATES]
        assert [str(gate) for gate in gates if gate.level == "P0"] == [
            "P0 l1.dimension_micro_f1 >= 0.75",
            "P0 l1.strict_match_rate >= 0.5",
            "P0 l2.section_hit_rate >= 0.7",
            "P0 l2.profile_quality >= 0.5",
        ]

    def test_metrics_are_consistent(self) -> None:
        assert set(SECTION_STAGES) == set(SECTIONS)
        for section in SECTIONS:
            for spec in metrics_of(section):
                assert spec.path == f"{section}.{spec.name}"
                assert spec.stage in SECTION_STAGES[section]
                assert spec.stage in ALL_STAGES
                assert spec.en
                assert spec.zh
                assert spec.high is None or spec.low < spec.high
        assert sum(len(metrics_of(section)) for section in SECTIONS) == len(METRICS)
        assert set(METRICS) >= AT_K


class TestDifferences:
    @pytest.mark.parametrize(
        "text", ["P1 diff:l1.memory_recall >= -0.02", "P1 Δl1.memory_recall >= -0.02", "P1 Δ l1.memory_recall>=-0.02"]
    )
    def test_a_gate_on_a_difference(self, text: str) -> None:
        gate = parse_gate(text)
        assert gate.path.difference
        assert str(gate) == "P1 diff:l1.memory_recall >= -0.02"
        assert parse_gate(str(gate)) == gate

    def test_its_filters_and_range(self) -> None:
        gate = parse_gate("P0 diff:l1.memory_recall{difficulty=hard} >= -1")
        assert gate.path.filters == (("difficulty", "hard"),)
        assert parse_gate("P2 diff:l1.priority_mae <= 3").threshold.number == 3
        with pytest.raises(ThresholdError, match="lies in -1 to 1"):
            parse_gate("P0 diff:l1.memory_recall >= -1.5")
        with pytest.raises(ThresholdError, match="did you mean"):
            parse_gate("P0 diff:l1.memory_recal >= 0")

    def test_a_case_has_no_baseline(self) -> None:
        with pytest.raises(ThresholdError):
            parse_threshold("diff:l1.memory_recall", ">= 0")


def test_the_largest_cut_off_is_one() -> None:
    assert parse_path("search.ndcg@999999").k == 999_999
