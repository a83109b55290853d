"""Reads the JSON that a model was asked for out of the text that it wrote.

Models wrap their answers in reasoning blocks, code fences and prose, and leave trailing commas behind. An answer that
is JSON as it stands is taken as it stands; only another one is searched. Everything here is linear in the length of
the text, whatever the text is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

#: Tags in which models think aloud; what matters outside JSON strings: such a tag, a code fence, an opening bracket.
_EVENT = re.compile(r"<(/?)(think|thinking|thought|reasoning)>|(```)|[\[{]", re.IGNORECASE)
#: A string literal (also one that never ends), a bracket, or a comma that only a closing bracket follows.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]|,(?=\s*[\]}])', re.DOTALL)
_CLOSING_TAG = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_MAY_BE_JSON = re.compile(r'\{\s*["}]|\[\s*["\]\[{\-0-9tfnNI]')
_ONLY_BRACKETS = re.compile(r"[\[{\s]*")
#: How many characters failed attempts may read in all, as a multiple of the text's length (and at least a floor):
#: beyond it the search goes on behind the failed part instead of inside it.
_BUDGET_FACTOR = 4
_BUDGET_FLOOR = 200_000


class PayloadError(ValueError):
    """A model's text does not hold the JSON asked for; the message says what it holds instead."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    value: Any
    start: int
    end: int
    fenced: bool

    @property
    def rank(self) -> int:
        """Objects, and lists of them, are answers; an empty list may be one; ``[1]`` is more likely a foot note."""
        if isinstance(self.value, dict):
            return 3 if self.value else 2
        if isinstance(self.value, list):
            if not self.value:
                return 2
            return 3 if any(isinstance(item, dict) for item in self.value) else 1
        return 0


def parse_payload(text: str) -> Any:
    """The JSON value in a model's answer.

    Strict JSON is tried first. Otherwise reasoning blocks are removed (``<think>…</think>``; with only a closing tag
    what follows it counts; a tag inside a JSON string is text), and every top-level array or object is a candidate,
    trailing commas and raw line breaks inside strings allowed. Of several the choice falls on objects and lists of
    objects before others, fenced ones before bare ones, then the last one that is at least half as long as the longest.
    An empty list behind all others says that nothing is left of them, and is the answer. Objects that follow one
    another, separated by white space or commas only, are read as one list. ``NaN`` and infinities are read as null.

    Raises PayloadError for an empty text, an unclosed reasoning block, nesting too deep for the reader, JSON that is
    broken or cut off, lists of objects of which one follows the other (no telling which is the answer), or none at all.
    """
    stripped = text.strip().removeprefix("\ufeff").strip()
    if not stripped:
        raise PayloadError("the answer is empty")
    try:
        return json.loads(stripped, parse_constant=_no_number)
    except RecursionError:
        raise PayloadError("the answer is nested too deeply to be read") from None
    except ValueError:
        pass
    candidates = _joined(_candidates(stripped), stripped)
    if not candidates:
        raise PayloadError(f"the answer holds no JSON array or object: {_shown(stripped)}")
    last = candidates[-1]
    if last.value == [] and (last.fenced or not any(candidate.fenced for candidate in candidates)):
        return last.value
    chosen = _chosen(candidates)
    if any(_rivals(one, other, stripped) for one, other in pairwise(candidates) if chosen is one or chosen is other):
        raise PayloadError("the answer holds several answers: lists of objects that follow one another")
    return chosen.value


def _chosen(candidates: list[_Candidate]) -> _Candidate:
    best = max((candidate.rank, candidate.fenced) for candidate in candidates)
    candidates = [candidate for candidate in candidates if (candidate.rank, candidate.fenced) == best]
    longest = max(candidate.end - candidate.start for candidate in candidates)
    return next(c for c in reversed(candidates) if 2 * (c.end - c.start) >= longest)


def _rivals(one: _Candidate, other: _Candidate, text: str) -> bool:
    """Whether two lists of objects stand side by side, nothing but white space between them, and differ."""
    lists = isinstance(one.value, list) and isinstance(other.value, list) and one.rank == other.rank == 3
    if not lists or text[one.end : other.start].strip():
        return False
    # Compared as text: the values may be nested as deeply as Python goes.
    first, second = ("".join(text[part.start : part.end].split()) for part in (one, other))
    return first != second


def as_items(payload: Any, key: str) -> list[Any]:
    """The list of items in a parsed answer.

    Accepted: a list; an object that holds a list (or one item) under ``key``; an object whose only entry is a list of
    objects; one object, as a list of one. An element that is no object stays in the list, for the caller to reject,
    as long as another element is one.

    Raises PayloadError for null, a number, a text, a list without any object, and a non-list under ``key``.
    """
    if isinstance(payload, dict):
        if key in payload:
            inner = payload[key]
            if not isinstance(inner, list | dict):
                raise PayloadError(f"{key!r} holds {_kind(inner)}, not a list of objects")
            payload = [inner] if isinstance(inner, dict) else inner
        else:
            only = next(iter(payload.values())) if len(payload) == 1 else None
            wrapped = isinstance(only, list) and bool(only) and all(isinstance(item, dict) for item in only)
            payload = only if wrapped else [payload]
    if not isinstance(payload, list):
        raise PayloadError(f"the answer is {_kind(payload)}, not a list of objects")
    if payload and not any(isinstance(item, dict) for item in payload):
        raise PayloadError(f"the answer is a list of {_kind(payload[0])} and the like, not of objects")
    return list(payload)


def has_lone_surrogate(value: Any) -> bool:
    """Whether any text in a parsed value holds half of a surrogate pair, which no UTF-8 file or database can hold."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            if any("\ud800" <= char <= "\udfff" for char in item):
                return True
        elif isinstance(item, dict):
            todo.extend(item.keys())
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
    return False


def _candidates(text: str) -> list[_Candidate]:
    """Every top-level array and object outside reasoning blocks, in order.

    A bracket behind which nothing of JSON follows is prose, and the search goes on inside it. One that begins as JSON
    and breaks later is a broken payload: its healthy parts are no answer, since the others would be lost in silence.
    """
    # Raw line breaks inside strings are a common slip that changes nothing: strict=False lets them pass.
    decoder = json.JSONDecoder(strict=False, parse_constant=_no_number)
    budget = max(_BUDGET_FLOOR, _BUDGET_FACTOR * len(text))
    found: list[_Candidate] = []
    broken: str | None = None
    fenced = False
    position = 0
    while (event := _EVENT.search(text, position)) is not None:
        start, position = event.span()
        if event[2] is not None and event[1]:
            found.clear()  # a closing tag without an opening one: the reasoning began with the answer
            broken = None
        elif event[2] is not None:
            position = _after_block(text, event)
        elif event[3] is not None:
            fenced = not fenced
            if fenced and (scalar := _fenced_scalar(text, position)) is not None:
                found.append(scalar)
        elif _MAY_BE_JSON.match(text, start):
            end, part = _bracketed(text, start)
            try:
                value = decoder.decode(part)
            except RecursionError:
                raise PayloadError("the answer is nested too deeply to be read") from None
            except ValueError as error:
                budget -= end - start
                if _ONLY_BRACKETS.fullmatch(part, 0, getattr(error, "pos", len(part))):
                    position = end if budget < 0 else position
                    continue
                broken = broken or f"{getattr(error, 'msg', error)} in {_shown(part)}"
                closing = _CLOSING_TAG.search(text, start, end)  # perhaps only a bracket in unopened reasoning
                position = closing.start() if closing else end
                continue
            found.append(_Candidate(value, start, end, fenced))
            position = end
    if not found and broken:
        raise PayloadError(f"the answer's JSON is broken: {broken}")
    return found


def _after_block(text: str, opening: re.Match[str]) -> int:
    closing = re.compile(f"</{opening[2]}>", re.IGNORECASE).search(text, opening.end())
    if closing is None:
        raise PayloadError(f"the reasoning block {opening[0]} is never closed, so no answer follows it")
    return closing.end()


def _bracketed(text: str, start: int) -> tuple[int, str]:
    """(end, text) of the bracketed part at ``start``, up to its closing bracket or else the end of the text, without
    the commas outside strings that stand between an element and a closing bracket."""
    pieces: list[str] = []
    depth, done, opened = 0, start, -1
    end = len(text)
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark == ",":
            if opened < 0 or text[opened : token.start()].strip():  # ``[,]`` has no element before its comma
                pieces.append(text[done : token.start()])
                done = token.end()
        elif mark in ("[", "{"):
            depth += 1
        elif mark in ("]", "}"):
            depth -= 1
            if depth == 0:
                end = token.end()
                break
        opened = token.end() if mark in ("[", "{") else -1
    pieces.append(text[done:end])
    return end, "".join(pieces)


def _fenced_scalar(text: str, position: int) -> _Candidate | None:
    """A fence that holds nothing but a scalar: an answer too, though seldom the one asked for."""
    closing = text.find("```", position)
    start = text.find("\n", position, max(closing, position)) + 1
    if not start or text[start:closing].lstrip()[:1] in ("[", "{"):
        return None
    try:
        value = json.loads(text[start:closing], parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return _Candidate(value, start, closing, fenced=True)


def _joined(candidates: list[_Candidate], text: str) -> list[_Candidate]:
    """Candidates with runs of bare objects (one a line, as in JSONL) turned into one list."""
    result: list[_Candidate] = []
    runs: list[list[_Candidate]] = []
    for candidate in candidates:
        last = runs[-1][-1] if runs else None
        if (
            last is not None
            and isinstance(last.value, dict)
            and isinstance(candidate.value, dict)
            and not text[last.end : candidate.start].replace(",", " ").strip()
        ):
            runs[-1].append(candidate)
        else:
            runs.append([candidate])
    for run in runs:
        if len(run) == 1:
            result.append(run[0])
        else:
            result.append(_Candidate([part.value for part in run], run[0].start, run[-1].end, run[0].fenced))
    return result


def _no_number(_name: str) -> None:
    return None


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "an object"


def _shown(text: str, limit: int = 80) -> str:
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
