"""Log records of cases in flight."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pytest_memeval.routing.records import Records
from pytest_memeval.routing.said import Said, routed


class Seen(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("memeval-test-records")
    logger.propagate = False
    handlers, level = list(logger.handlers), logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_each_handler_gets_a_record_once(logger: logging.Logger) -> None:
    ours, both, theirs = Seen(), Seen(), Seen()
    records, said = Records(), Said()
    for handler in (ours, both):
        records.watch(handler)
        records.watch(handler)
    records.watch(None)
    for handler in (ours, both, theirs):
        logger.addHandler(handler)
    with routed(said):
        logger.error("one")
        logger.error("two")
    # Whoever is not watched has no item to wait for.
    assert (ours.texts, both.texts, theirs.texts) == ([], [], ["one", "two"])
    said.repeat()
    assert ours.texts == both.texts == theirs.texts == ["one", "two"]
    records.close()
    with routed(said):
        logger.error("three")
    assert ours.texts == ["one", "two", "three"]


def test_a_handler_that_came_later_gets_it_too(logger: logging.Logger) -> None:
    always, phase = Seen(), Seen()
    phase.setLevel(logging.CRITICAL)
    records, said = Records(), Said()
    records.watch(always)
    records.watch(phase)
    logger.addHandler(always)
    with routed(said):
        logger.error("small")
        logger.critical("great")
    logger.addHandler(phase)
    said.repeat()
    assert (always.texts, phase.texts) == (["small", "great"], ["great"])
    records.close()


def test_the_level_is_lowered_between_items_and_given_back() -> None:
    root = logging.getLogger()
    before = root.level
    records = Records()
    try:
        root.setLevel(logging.WARNING)
        records.hold_level(None)
        assert root.level == logging.WARNING
        records.hold_level(logging.INFO)
        records.hold_level(logging.INFO)
        assert root.level == logging.INFO
        records.close()
        assert root.level == logging.WARNING
    finally:
        root.setLevel(before)


def test_a_text_is_what_it_was_when_it_was_logged(logger: logging.Logger) -> None:
    ours, records, said = Seen(), Records(), Said()
    records.watch(ours)
    logger.addHandler(ours)
    state = ["first"]
    with routed(said):
        logger.error("state: %s", state)
        state.append("later")
        with pytest.raises(TypeError):
            logger.error("number: %d", "none")  # as with pytest's handlers, in the code that logs
    said.repeat()
    assert ours.texts == ["state: ['first']"]
    records.close()
