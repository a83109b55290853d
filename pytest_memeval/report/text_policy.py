"""What becomes of the texts of private conversations in reports, the journal and the record of calls.

Labels, ids and words of the formats stay, as they are structure. An engine without ids of its own may have put a text
where an id belongs, though, and any text where a label does: there only what the case says, what the package made and
what no sentence looks like stays, and everything else gets a stand-in, the same wherever it stands, so that what refers
to one another still does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from pytest_memeval.metrics.catalog import SECTIONS
from pytest_memeval.report.entries import HOISTED

TextPolicy = Literal["full", "hash", "none"]
TEXT_POLICIES: tuple[TextPolicy, ...] = ("full", "hash", "none")

#: Keys of what the package, the case or its registry says, which nobody fills with a text.
_TRUSTED = frozenset(
    {
        "candidate_ids", "case_id", "created_at", "dimension", "dimensions", "expected", "expected_targets", "extra",
        "finish_reason", "kind", "missed", "mode", "modes", "model", "provider", "relevant", "stage", "status", "time",
        "variant", "version",
    }
)  # fmt: skip
#: Keys of ids that an engine chose.
_IDS = frozenset(
    {
        "id", "ids", "injected", "memory_id", "memory_ids", "repeated", "result_id", "scene_id", "scene_ids",
        "source_ids", "source_message_ids", "target_ids", "targets",
    }
)  # fmt: skip
#: Keys of sections: those of the templates, and what an engine has besides.
_SECTION_IDS = frozenset({"placed", "section", "section_id"})
#: Keys of words that an engine chose, mostly of the registry's or the protocol's.
_LABELS = frozenset({"action", "change", "decided", "memory_type", "time_velocity"})
_STRUCTURAL = _TRUSTED | _IDS | _SECTION_IDS | _LABELS
#: What an engine or a model filled as it liked: even its keys and labels are texts.
_OPAQUE = frozenset({"extra", "item", "params"})
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}(?:@\d{1,6})?|-?\d{1,9}")
#: Parts of an entry whose keys may be texts themselves: a search output is keyed by its queries.
_KEYED_BY_TEXT = frozenset({"search", "queries", "hits", "rankings"})
_RECORD_FIELDS = frozenset({"query", "results", "hits", "relevant", "score", "content", "params", *_STRUCTURAL})

#: Ids that cannot be a text: a short word with a number or two, a number of a labelled memory, hexadecimal digits, a
#: UUID.
_PLAIN_ID = re.compile(
    r"(?:(?:[A-Za-z]{0,2}|mem|memory|msg|message|pred|scene|fact|doc|chunk|node|item|entry|turn|session|distractor)"
    r"[-_.:#]?[0-9]{1,6}(?:[-_.:#][0-9]{1,6})?"
    r"|[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}#[0-9]{1,6}"
    r"|(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{8,64}"
    r"|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})?"
)
#: Ids of messages in published data sets.
_MESSAGE_ID = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9_.:#/-]{1,80}")
_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
#: What is no sentence, under the keys of an engine's notes.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:+-]{0,79}")
#: Keys of a section's details whose ids are the case's own.
_OWN_IDS = frozenset({"candidate_ids", "expected", "expected_targets", "relevant"})
#: What a question's output has of its data set's ids.
_QUESTION_IDS = ("question_id", "evidence", "evidence_turns", "corrected_evidence")


def text_digest(text: str) -> str:
    """``sha256:`` and the first 12 hexadecimal digits of the text's digest: equal texts stay recognisable as equal."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def apply_text_policy(entry: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """An entry (of ``per_case``, or of the journal) with its texts as ``policy`` wants them.

    ``full`` leaves all, ``hash`` puts a digest for every text, ``none`` leaves every text out (``None``; an error keeps
    stage and kind with an empty message, an id that may be a text is called ``id-1``, ``id-2`` …). Figures, labels,
    ids, structure stay. An unknown policy raises ValueError.
    """
    if policy not in TEXT_POLICIES:
        raise ValueError(f"unknown text policy {policy!r}; known: {', '.join(TEXT_POLICIES)}")
    return dict(entry) if policy == "full" else _Scrubber(entry, policy).entry(entry)


def scrub_call(call: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """A model call with prompt, answer and error text as ``policy`` wants them."""
    if policy == "full":
        return dict(call)
    replace = _replacement(policy)
    result = dict(call)
    if "request" in result:
        result["request"] = [
            {key: value if key == "role" else replace(str(value)) for key, value in message.items()}
            for message in (result["request"] if policy == "hash" else ())
        ]
    for key in ("answer", "error"):
        if result.get(key) is not None:
            # That a call failed is a figure, not a text.
            result[key] = replace(result[key]) if key == "answer" or policy == "hash" else ""
    return result


def _replacement(policy: str) -> Callable[[str], str | None]:
    return text_digest if policy == "hash" else lambda _: None


class _Scrubber:
    """Takes the texts out of one case: its entry, and each trial of it."""

    def __init__(self, entry: Mapping[str, Any], policy: str) -> None:
        self._policy = policy
        self._replace = _replacement(policy)
        self._known = frozenset(_own_ids(entry))
        self._made_of_the_case = re.compile(re.escape(str(entry.get("case_id"))) + "-(?:[a-z]{1,10}-)?[0-9]{1,6}")
        self._foreign_sections = frozenset(_foreign_sections(entry))
        self._aliases: dict[str, str] = {}

    def entry(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        result = dict(entry)
        if "outputs" in result:
            result["outputs"] = self._outputs(result["outputs"])
        for key in (*HOISTED, "facts"):
            if key in result:
                result[key] = self._scrub(result[key], key in _KEYED_BY_TEXT, trusting=key != "facts")
        if result.get("input"):
            result["input"] = self._input(result["input"])
        sections = result.get("sections")
        if isinstance(sections, Mapping):
            result["sections"] = {name: self._section(section) for name, section in sections.items()}
        for name in SECTIONS:
            if isinstance(result.get(name), Mapping):
                result[name] = self._section(result[name])
        if result.get("trials"):
            # Each is built as the entry itself, in what may hold texts.
            result["trials"] = [self.entry(trial) for trial in result["trials"]]
        if "errors" in result:
            result["errors"] = [
                {**error, "message": self._replace(error["message"]) or ""} for error in result["errors"]
            ]
            if "error" in result:
                result["error"] = result["errors"][0] if result["errors"] else None
        if "calls" in result:
            result["calls"] = [scrub_call(call, self._policy) for call in result["calls"]]
        return result

    def _input(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What was said without its words: who of the formats' roles spoke, and when, is structure; names are not."""
        scrubbed: dict[str, Any] = self._scrub(given, False)
        for part in ("conversation", "subsequent_conversation"):
            for message, original in zip(scrubbed.get(part) or (), given.get(part) or (), strict=True):
                message["role"] = original.get("role")
        return scrubbed

    def _outputs(self, given: Any) -> Any:
        scrubbed = self._scrub(given, False)
        if not isinstance(given, Mapping):
            return scrubbed
        template = given.get("template")
        if isinstance(template, Mapping):
            for sections, own in zip(scrubbed["template"].values(), template.values(), strict=True):
                for section, original in zip(sections, own, strict=True):
                    section["id"] = self._section_id(original["id"])
        question = given.get("qa")
        if isinstance(question, Mapping):
            # Nobody but the package writes these: under the same names elsewhere an engine may have put words.
            scrubbed["qa"].update({key: question[key] for key in _QUESTION_IDS if key in question})
            if "sources" in question:
                scrubbed["qa"]["sources"] = [
                    one if _MESSAGE_ID.fullmatch(one) else self._identity(one) for one in question["sources"]
                ]
        return scrubbed

    def _section(self, section: Any) -> Any:
        if not isinstance(section, Mapping) or "details" not in section:
            return section
        return {**section, "details": self._scrub(section["details"], False)}

    # -- values --------------------------------------------------------------------------------------------------------

    def _scrub(self, value: Any, keyed_by_text: bool, key: str | None = None, *, trusting: bool = True) -> Any:
        """``key`` is the structural key that the value stands under; in what is not trusting an engine has put values
        under any key."""
        if isinstance(value, str):
            return self._structural(key, value, trusting) if key is not None else self._replace(value)
        if isinstance(value, Mapping):
            result: dict[str, Any] = {}
            for own, item in value.items():
                name = str(own)
                known = _FIELD.fullmatch(name) is not None and (not keyed_by_text or name in _RECORD_FIELDS)
                if name in _OPAQUE and isinstance(item, Mapping):
                    result[name] = self._scrub_all(item)
                else:
                    inner = name if known and name in _STRUCTURAL and not isinstance(item, Mapping) else None
                    result[self._shown_key(name, known, result)] = self._scrub(
                        item, name in _KEYED_BY_TEXT, inner, trusting=trusting
                    )
            return result
        if isinstance(value, (list, tuple)):
            return [self._scrub(item, False, key, trusting=trusting) for item in value]
        return value

    def _scrub_all(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._replace(value)
        if isinstance(value, Mapping):
            result: dict[str, Any] = {}
            for key, item in value.items():
                result[self._shown_key(str(key), False, result)] = self._scrub_all(item)
            return result
        if isinstance(value, (list, tuple)):
            return [self._scrub_all(item) for item in value]
        return value

    def _shown_key(self, name: str, known: bool, others: Mapping[str, Any]) -> str:
        """A key as it is, or a stand-in: without its text a key still has to differ from its neighbours."""
        return name if known else (self._replace(name) or f"#{len(others)}")

    def _structural(self, key: str, value: str, trusting: bool) -> str:
        if key in _IDS:
            return self._identity(value)
        if key in _SECTION_IDS and (trusting or value in self._foreign_sections):
            return self._section_id(value)
        if (key in _TRUSTED and trusting) or (_LABEL if trusting else _WORD).fullmatch(value):
            return value
        return self._identity(value)

    def _identity(self, value: str) -> str:
        if value in self._known or _PLAIN_ID.fullmatch(value) or self._made_of_the_case.fullmatch(value):
            return value
        return self._alias(value)

    def _section_id(self, value: str) -> str:
        return self._alias(value) if value in self._foreign_sections else value

    def _alias(self, value: str) -> str:
        if self._policy == "hash":
            return text_digest(value)
        return self._aliases.setdefault(value, f"id-{len(self._aliases) + 1}")


# -- what the case says ------------------------------------------------------------------------------------------------


def _own_ids(entry: Mapping[str, Any]) -> Iterator[str]:
    """The ids and labels that the case has itself."""
    given = entry.get("input") or {}
    for part in ("conversation", "subsequent_conversation"):
        yield from (str(message.get("id")) for message in given.get(part) or ())
    yield from (str(memory.get("memory_id")) for memory in given.get("existing_memories") or ())
    outputs = entry.get("outputs") or {}
    # Normalised: what is left is of the registry, and modes are those of the labels.
    yield from (name for memory in outputs.get("l1") or () for name in memory.get("dimensions") or ())
    yield from outputs.get("template") or ()
    question = outputs.get("qa")
    if isinstance(question, Mapping):
        for key in _QUESTION_IDS:
            yield from _strings(question.get(key))
    sections = entry.get("sections")
    named = sections.values() if isinstance(sections, Mapping) else (entry.get(name) for name in SECTIONS)
    for section in named:
        details = section.get("details") if isinstance(section, Mapping) else None
        if isinstance(details, Mapping):
            for memory in details.get("truth") or ():
                yield from (str(memory[key]) for key in ("memory_type", "time_velocity") if memory.get(key))
                yield from _strings(memory.get("source_message_ids"))
            yield from _under(details, _OWN_IDS)


def _under(value: Any, keys: Iterable[str]) -> Iterator[str]:
    """The strings under these keys, however deep."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(item) if key in keys else _under(item, keys)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _under(item, keys)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        yield from (item for item in value if isinstance(item, str))


def _foreign_sections(entry: Mapping[str, Any]) -> Iterator[str]:
    """The sections that an engine has besides those of the templates."""
    for part in (entry, *(entry.get("trials") or ())):
        for fact in part.get("facts") or ():
            if fact.get("kind") == "unknown_section":
                yield str(fact.get("section"))
