"""What a case says before its turn."""

from __future__ import annotations

from pytest_memeval.routing.said import Said, routed, said_here


def test_what_is_kept_when_nobody_comes_any_more_is_said_at_once() -> None:
    said, heard = Said(), []
    with routed(said):
        asked = said_here()  # as another thread asks, and goes on only when the case's item is over
        assert asked is said
        said.keep(lambda: heard.append("early"))
        said.end()
        asked.keep(lambda: heard.append("late"))
        assert said_here() is None
    assert heard == ["early", "late"]


def test_what_saying_it_again_says_is_said_in_its_turn() -> None:
    said, heard = Said(), []

    def first() -> None:
        said.keep(lambda: heard.append("second"))
        heard.append("first")

    said.keep(first)
    said.repeat()
    assert heard == ["first", "second"]
