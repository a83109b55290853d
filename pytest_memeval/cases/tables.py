"""The keys of a case file: the one source of what the loader accepts and of the JSON Schema."""

from __future__ import annotations

from pytest_memeval.cases.conversation import KEPT_KEYS, MESSAGE_KEYS
from pytest_memeval.cases.fieldtypes import (
    Anything,
    AsNode,
    Field,
    Integer,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Table,
    Text,
)
from pytest_memeval.documents.bounds import MAX_SECONDS
from pytest_memeval.values import ACTIONS

KINDS: tuple[str, ...] = ("distill", "qa", "rag")
SOURCES: tuple[str, ...] = ("real", "synthetic", "edge", "unspecified")
DIFFICULTIES: tuple[str, ...] = ("easy", "medium", "hard", "unspecified")

_INDICES = ListOf(Integer())
_TEXTS = ListOf(Text())
_ID = Text()

_MESSAGE_SCHEMA = {
    "type": "object",
    "description": "{id, role, name, content, time}, an OpenAI message or a ShareGPT message {from, value}",
    "properties": {key: {} for key in (*MESSAGE_KEYS, *KEPT_KEYS)},
    "additionalProperties": False,
    "anyOf": [{"required": [key]} for key in ("content", "value", "tool_calls", "function_call")],
}
_CONVERSATION = AsNode({"type": ["string", "number", "boolean", "array"], "items": _MESSAGE_SCHEMA})

META = Table(
    "meta",
    {
        "version": Field(Text(), "the set's own version"),
        "created_at": Field(Text(), "when the set was made"),
        "total_cases": Field(Integer(), "how many cases there should be; another number is a warning"),
        "description": Field(Text(), "what the set is for"),
        "timezone": Field(Text(), "IANA name of the zone of times written without one (default UTC)"),
        "gates": Field(_TEXTS, "gates such as 'P0 l1.dimension_micro_f1 >= 0.75'; [] for none"),
        "registry": Field(Text(), "path of the dimension registry, relative to this file"),
        "templates": Field(Text(), "path of the templates, relative to this file"),
        "prompts": Field(Text(), "path of the prompts folder, relative to this file"),
        "distractors": Field(Text(), "path of further memories that queries are searched among, relative to this file"),
    },
    open=True,
)

GT_MEMORY = Table(
    "a labelled memory",
    {
        "content": Field(Text(), "what should be remembered", required=True),
        "dimensions": Field(_TEXTS, "ids of the registry's dimensions", needed=True),
        "memory_type": Field(Text(), "one of the registry's memory types"),
        "priority": Field(Number(), "importance in the registry's range"),
        "time_velocity": Field(Text(), "one of the registry's time velocities"),
        "source_message_ids": Field(_TEXTS, "ids of the messages that it comes from"),
        "extra": Field(Anything(mapping=True), "anything, kept"),
    },
)

EXPECTED_L1 = Table(
    "expected_l1",
    {"memories": Field(ListOf(GT_MEMORY), "the labelled memories; [] where nothing is worth keeping", required=True)},
)

EXISTING_MEMORY = Table(
    "an existing memory",
    {
        "memory_id": Field(_ID, "its id in the store", required=True),
        "content": Field(Text(), "its text", required=True),
        "dimensions": Field(_TEXTS, "ids of the registry's dimensions"),
        "memory_type": Field(Text(), "one of the registry's memory types"),
        "priority": Field(Number(), "importance in the registry's range"),
        "time_velocity": Field(Text(), "one of the registry's time velocities"),
        "source_message_ids": Field(_TEXTS, "ids of the messages that it came from"),
        "created_at": Field(Text(), "ISO time"),
        "extra": Field(Anything(mapping=True), "anything, kept"),
    },
)

EXISTING_SCENE = Table(
    "an existing scene",
    {
        "scene_id": Field(_ID, "its id in the store", required=True),
        "title": Field(Text(), "its title", required=True),
        "memory_ids": Field(_TEXTS, "ids of existing memories"),
    },
)

ACTION = Table(
    "an action",
    {
        "new_memory_index": Field(Integer(), "index of the labelled memory, from 0", required=True),
        "candidate_ids": Field(_TEXTS, "ids of the existing memories that the action concerns"),
        "action": Field(Text(ACTIONS, "action"), "what should be done", required=True),
        "merged_content": Field(Text(), "the text after an update or merge"),
        "reason": Field(Text(), "why"),
    },
)

EXPECTED_L15 = Table("expected_l15", {"actions": Field(ListOf(ACTION), "the right decisions", required=True)})

GT_SCENE = Table(
    "a labelled scene",
    {
        "label": Field(Text(), "what the scene is about", required=True),
        "memories": Field(_INDICES, "indices of the labelled memories that belong together"),
    },
)

EXPECTED_L2 = Table(
    "expected_l2",
    {
        "scene_labels": Field(_TEXTS, "titles of the scenes that should come out"),
        "scenes": Field(ListOf(GT_SCENE), "which labelled memories belong together"),
        "template_section": Field(MapOf(MapOf(Text())), "mode → index of a labelled memory → section title or id"),
    },
)

EXPECTED_INJECT = Table(
    "expected_inject",
    {
        "mode": Field(Text(), "a template's name", required=True),
        "subsequent_conversation": Field(_CONVERSATION, "the conversation that needs the memories"),
        "referenced_memory_indices": Field(_INDICES, "indices of the labelled memories that it refers to"),
    },
)

SEARCH_ENTRY = Table(
    "a search query",
    {
        "query": Field(Text(), "what is searched for", required=True),
        "relevant": Field(_TEXTS, "indices of labelled memories or ids case_id#index, best first", required=True),
        "grades": Field(ListOf(Number(minimum=0)), "gain of each relevant memory, in the same order"),
    },
)
EXPECTED_SEARCH = OneOf(MapOf(_TEXTS), ListOf(SEARCH_ENTRY))

CASE = Table(
    "a case",
    {
        "case_id": Field(_ID, "unique in the file", required=True),
        "source": Field(Text(SOURCES, "source"), "where the case comes from"),
        "difficulty": Field(Text(DIFFICULTIES, "difficulty"), "how hard the case is"),
        "tags": Field(_TEXTS, "markers for -m"),
        "timeout": Field(Number(minimum=0, exclusive=True, maximum=MAX_SECONDS), "seconds for the whole case"),
        "now": Field(Text(), "the case's clock, ISO time"),
        "conversation": Field(_CONVERSATION, "text with [msg#N] headers, or a list of messages"),
        "existing_memories": Field(ListOf(EXISTING_MEMORY), "what the store already holds"),
        "existing_scenes": Field(ListOf(EXISTING_SCENE), "the scenes that the store already holds"),
        "expected_l1": Field(EXPECTED_L1, "what extraction should find"),
        "expected_l15": Field(EXPECTED_L15, "how conflicts should be resolved"),
        "expected_l2": Field(EXPECTED_L2, "scenes and template sections"),
        "expected_inject": Field(EXPECTED_INJECT, "what should be injected"),
        "expected_search_results": Field(EXPECTED_SEARCH, "query → relevant memories"),
        "expect": Field(MapOf(Text()), "metric → threshold of this case, such as '>= 0.6'"),
        "annotations": Field(MapOf(Table("an annotation", EXPECTED_L1.fields)), "annotator → a second set of labels"),
        "extra": Field(Anything(mapping=True), "anything, kept"),
        "notes": Field(Text(), "remarks"),
    },
)

CASE_FILE = Table(
    "the file",
    {
        "meta": Field(META, "about the set"),
        "kind": Field(Text(KINDS, "kind"), "what the cases are (default distill)"),
        "dataset": Field(AsNode(), "a published data set"),
        "cases": Field(ListOf(CASE), "the cases"),
    },
)

#: One of these is what a case is about, one of those what it is checked against.
INPUT_KEYS: tuple[str, ...] = ("conversation", "existing_memories", "expected_inject", "expected_search_results")
TRUTH_KEYS: tuple[str, ...] = tuple(name for name in CASE.fields if name.startswith("expected_"))
