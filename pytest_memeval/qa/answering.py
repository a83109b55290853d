"""What turns retrieved context and a question into an answer."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from pytest_memeval.metrics.text.tokens import has_cjk, stem, word_tokens
from pytest_memeval.values import Hit

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.llm.protocol import ChatModel

#: What an answerer says that finds nothing; LoCoMo's own evaluation reads it as a refusal.
REFUSAL = "No information available"
#: The prompt stage of the chat answerer.
ANSWER_STAGE = "qa_answer"
_LINE_HEAD = re.compile(r"(?:\[[^\]]*\]\s*)(?:([^:\n]{1,60}):\s+)?|([^:\n]{1,60}):\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
#: Words of a question that say nothing of its subject.
_IDLE = frozenset(
    re.findall(
        r"\w+",
        "a an the of in on at to for from by with and or is are was were be been do does did has have had will would "
        "can could should what when where who whom whose which why how many much long often that this these those "
        "it its his her their he she they i you we my your our me him them as about any some there",
    )
)
_IDLE_CJK = frozenset("的了吗呢是在我你他她它们们什么怎哪几谁多少有和与就都也过把")


class Answerer(Protocol):
    """Answers a question from hits. ``name`` is its word in reports."""

    @property
    def name(self) -> str: ...

    async def answer(self, question: str, hits: Sequence[Hit], question_date: str = "") -> str: ...


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has for a language model: a quarter of its characters, every CJK character one."""
    if text.isascii():
        return math.ceil(len(text) / 4)
    dense = sum(1 for character in text if has_cjk(character))
    return dense + math.ceil((len(text) - dense) / 4)


def context_text(hits: Sequence[Hit]) -> str:
    """The hits as the text that an answerer reads, in their order."""
    return "\n".join(hit.content for hit in hits)


class ExtractiveAnswerer:
    """The retrieved sentence that shares most with the question, rare words counting more; offline and deterministic.

    A pipeline check, not a reader: it cannot combine, count or date. Nothing in common gives a refusal.
    """

    name = "extractive"

    async def answer(self, question: str, hits: Sequence[Hit], question_date: str = "") -> str:
        return self.answer_sync(question, hits)

    def answer_sync(self, question: str, hits: Sequence[Hit], question_date: str = "") -> str:
        wanted = {word for word in _subject(question) if word not in _IDLE and word not in _IDLE_CJK}
        said = [one for hit in hits for one in _sentences(hit.content)]
        sentences = [sentence for _, sentence in said]
        # Who speaks belongs to what is said: "I moved" of Ann's is about Ann.
        bags = [frozenset(_subject(speaker) + _subject(sentence)) for speaker, sentence in said]
        spread = Counter(word for bag in bags for word in bag & wanted)
        weights = {word: math.log(1 + len(bags) / count) for word, count in spread.items()}
        best, chosen = 0.0, REFUSAL
        for sentence, bag in zip(sentences, bags, strict=True):
            score = math.fsum(weights[word] for word in sorted(bag & wanted))
            # A question asked in the conversation is seldom its own answer.
            score *= 0.5 if sentence.rstrip().endswith(("?", "？")) else 1.0
            if score > best + 1e-12:
                best, chosen = score, sentence
        return chosen


@lru_cache(maxsize=16384)
def _sentences(content: str) -> tuple[tuple[str, str], ...]:
    """(speaker, sentence) of every sentence of a context's lines."""
    found: list[tuple[str, str]] = []
    for line in content.split("\n"):
        head = _LINE_HEAD.match(line)
        said = line[head.end() :] if head else line
        speaker = (head[1] or head[2] or "") if head else ""
        found += [(speaker, part.strip()) for part in _SENTENCE_END.split(said) if part.strip()]
    return tuple(found)


@lru_cache(maxsize=16384)
def _subject(text: str) -> tuple[str, ...]:
    return tuple(stem(word) if word.isascii() and len(word) > 3 else word for word in word_tokens(text))


@dataclass
class ChatAnswerer:
    """A chat model with the versioned prompt ``qa_answer``, at temperature 0."""

    llm: ChatModel
    prompts: PromptSet
    max_tokens: int | None = None

    @property
    def name(self) -> str:
        return "chat"

    @property
    def protocol(self) -> Mapping[str, Any]:
        """What of the answer is fixed: prompt version and hash, parameters."""
        text = self.prompts.texts[ANSWER_STAGE]
        return {
            "prompt_version": text.version,
            "prompt_sha256": text.sha256,
            "temperature": 0.0,
            "max_tokens": self.max_tokens,
        }

    async def answer(self, question: str, hits: Sequence[Hit], question_date: str = "") -> str:
        prompt = self.prompts.render(
            ANSWER_STAGE,
            question=question,
            context=context_text(hits) or "(nothing was found)",
            question_date=question_date or "unknown",
        )
        reply = await self.llm.complete(
            [{"role": "user", "content": prompt}], stage=ANSWER_STAGE, temperature=0.0, max_tokens=self.max_tokens
        )
        return reply.text.strip()
