"""What goes through pytest-xdist's channel: the same object where that can carry it, else the nearest it can."""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum, StrEnum
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import execnet
import numpy
import pytest

from pytest_memeval.workers.sendable import sendable


class Word(str):
    pass


class Colour(StrEnum):
    RED = "red"


class Level(int, Enum):
    HIGH = 3


class Pair(NamedTuple):
    one: int
    other: str


class Wordless:
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 1.5, float("nan"), float("-inf"), 2j, b"\xff", "plain", "smörgås 😀", -(2**31), 2**31 - 1, 2**70),
        *(["a", 1], ("a", 1), {"a": [1, {"b": ()}]}, {b"key": 1, (1, 2): "x", None: 0}, {1, "a"}, frozenset({1})),
    ],
)
def test_what_can_be_sent_is_the_same_object(value: Any) -> None:
    execnet.dumps(value)
    assert sendable(value) is value


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("half \ud800 é", "half \\ud800 é"),
        ({"a\udfff": ["\ud83d", ("x", "\udc00")]}, {"a\\udfff": ["\\ud83d", ("x", "\\udc00")]}),
        (frozenset({"\ud800"}), frozenset({"\\ud800"})),
        (Word("w\ud800"), "w\\ud800"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (numpy.float64(0.5), 0.5),
        (numpy.int64(7), 7),
        (-(2**31) - 1, "-2147483649"),
        (10**5000, hex(10**5000)),
        (Pair(1, "\ud800"), (1, "\\ud800")),
        (OrderedDict(a=Word("b")), {"a": "b"}),
        (PurePosixPath("a/\udce9"), "a/\\udce9"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_sent_becomes_the_nearest_that_can(value: Any, sent: Any) -> None:
    found = sendable(value)
    assert found == sent
    assert type(found) is type(sent)
    execnet.dumps(found)


def test_what_has_no_text_or_no_end_can_be_sent_all_the_same() -> None:
    assert "RuntimeError" in sendable(Wordless())
    endless: list[Any] = []
    endless.append(endless)
    execnet.dumps(sendable(endless))
