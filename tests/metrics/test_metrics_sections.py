from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.metrics.sections import SectionRecord

names = st.text(alphabet="_abc.@1", min_size=1, max_size=5)
numbers = st.integers(-5, 5) | st.floats(-1e9, 1e9)
records = st.builds(
    SectionRecord,
    ratios=st.dictionaries(names, st.tuples(numbers, numbers.filter(lambda n: n == 0 or abs(n) > 1e-9)), max_size=4),
    counts=st.dictionaries(names, numbers, max_size=3),
    tables=st.dictionaries(names, st.dictionaries(names, numbers, max_size=3), max_size=3),
    details=st.dictionaries(names, st.lists(st.integers())),
)


@given(records)
def test_json_reads_back(record: SectionRecord) -> None:
    text = json.dumps(record.to_json(), allow_nan=False)
    assert SectionRecord.from_json(json.loads(text)) == record


def test_values() -> None:
    record = SectionRecord(ratios={"f1": (1, 4), "recall": (0, 0), "_part": (1, 2)}, counts={"total": 3})
    assert record.values() == {"f1": 0.25, "recall": None, "total": 3}
