"""Records of a question, of a RAG sample and of a search, as runs leave them."""

from __future__ import annotations

from typing import Any

from report_samples import case

from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.results import CaseError, CaseResult, SetInfo

QA_SET, RAG_SET = "cases/people.memeval.yaml", "cases/tower.yaml"
PROTOCOL = {"format": "locomo", "memory": "bm25", "retrieval_k": 10, "answerer": "extractive", "trials": 1}


def _(text: str, word: str) -> str:
    return f"{text} {word}".rstrip()


def question(number: int = 1, *, word: str = "", right: bool = True, **fields: Any) -> CaseResult:
    """A judged question with two messages of evidence, one of which is found at rank 2. Every text holds ``word``."""
    kind = ("multi_hop", "temporal")[number % 2]
    score = 1.0 if right else 0.0
    values = {"judge_score": score, "f1": score, "turn_recall": 0.5, f"f1_by_type.{kind}": score}
    values |= {"turn_recall@1": 0.0, "turn_recall@5": 0.5, "turn_hit@1": 0.0, "turn_hit@5": 1.0}
    output = {
        "question_id": f"conv-1-{number}",
        "question": _(f"What does Ann keep in box {number}?", word),
        "truth": _("a lamp", word),
        "trap": _("a trap", word),
        "question_date": "",
        "category": number % 2 + 1,
        "evidence": ["D1:1", "D1:9"],
        "answer": _("the answer is a lamp", word),
        "sources": ["D1:4", "D1:1", "D1:5"],
        "sources_in_all": 60,
        "hits": 3,
        "corrected_truth": _("a candle", word),
        "context_tokens": 80,
        "evidence_found": [
            {"id": "D1:1", "rank": 2, "content": _("I keep a lamp there", word)},
            {"id": "D1:9", "rank": None, "content": _("and matches", word)},
        ],
        "verdicts": [
            {"score": score, "mode": "graded", "reason": _("says it is a lamp", word)},
            {"score": 0.0, "mode": "graded", "reason": _("not a candle", word), "of": "corrected"},
        ],
        "arms": {"no-memory": _("no idea", word)},
    }
    given: dict[str, Any] = {
        "set": QA_SET,
        "kind": "qa",
        "tags": (kind,),
        "cluster": "conv-1",
        "source": "unspecified",
        "difficulty": "unspecified",
        "stages": {"qa": "scored"},
        "outputs": {"qa": output},
    }
    section = SectionRecord(ratios={name: (value, 1.0) for name, value in values.items()})
    return case(f"conv-1::q{number}", {"qa": section}, **{**given, **fields})


def sample(number: int = 1, *, word: str = "", **fields: Any) -> CaseResult:
    """A RAG sample with two passages, the first of them relevant, of which one evaluator gave a reason, another failed.
    Every text holds ``word``."""
    values = {"faithfulness": 0.25 * (number % 4), "words": 3.0}
    details = {
        "scores": {"Faithful": {"faithfulness": values["faithfulness"], "mood": "calm", "polite": False},
                   "Words": {"words": 3.0, "citations": None}, "Broken": None},
        "feedback": {"Faithful": _("two statements", word)},
    }  # fmt: skip
    output = {
        "query": _(f"Where is tower {number}?", word),
        "contexts": [_("The tower is in Paris.", word), _("The bridge is in London.", word)],
        "response": _("In Paris.", word),
        "reference": _("Paris", word),
        "reference_contexts": [_("tower is in Paris", word)],
        "relevant": [True, False],
    }
    given: dict[str, Any] = {
        "set": RAG_SET,
        "kind": "rag",
        "tags": ("geography",) if number % 2 else ("history",),
        "source": "unspecified",
        "difficulty": ("easy", "hard")[number % 2],
        "outcome": "errored",
        "stages": {"rag": "errored", "rag.faithfulness": "scored", "rag.words": "scored"},
        "errors": (CaseError("rag", "evaluator_exception", _("Broken: RuntimeError: no luck", word)),),
        "outputs": {"rag": output},
    }
    section = SectionRecord(
        ratios={name: (value, 1.0) for name, value in values.items()}, tables={"mood": {"calm": 1}}, details=details
    )
    return case(f"place-{number}", {"rag": section}, **{**given, **fields})


def search(number: int = 1, *, word: str = "", **fields: Any) -> CaseResult:
    """A case with one query whose first relevant memory is at rank 2, the other one nowhere."""
    query = _(f"what is in box {number}", word)
    row = {
        "query": query,
        "relevant": ["a#0", "b#3"],
        "ids": ["c#1", "a#0"],
        "ndcg@10": 0.4,
        "recall@10": 0.5,
        "mrr": 0.5,
    }
    figures = {
        "hit@1": 0.0,
        "hit@10": 1.0,
        "recall@1": 0.0,
        "recall@10": 0.5,
        "ndcg@1": 0.0,
        "ndcg@10": 0.4,
        "mrr": 0.5,
    }
    section = SectionRecord(
        ratios={name: (value, 1.0) for name, value in figures.items()},
        details={"queries": [row], "setup": {"top_k": 20, "rrf_k": 60.0, "documents": 12}},
    )
    hits = [{"id": "c#1", "score": 1.0, "content": _("a chair", word)}, {"id": "a#0", "score": 0.5}]
    return case(f"search-{number}", {"search": section}, **{"outputs": {"search": {query: hits}}, **fields})


def injection(*, word: str = "", **fields: Any) -> CaseResult:
    """A case with a later conversation and what was injected into it."""
    details = {"pipeline": {"relevant_blocks": ["habits"]}}
    blocks = [{"title": "habits", "memory_ids": ["m1"], "present": True, "text": _("drinks tea", word)},
              {"title": "skills", "memory_ids": [], "present": False, "text": None}]  # fmt: skip
    message = {"id": "msg_1", "role": "user", "name": _("Ann", word), "content": _("What shall I drink?", word)}
    section = SectionRecord(ratios={"inject_hit_rate": (1.0, 2.0)}, details=details)
    given: dict[str, Any] = {
        "input": {"subsequent_conversation": [message]},
        "outputs": {"inject": {"pipeline": blocks, "labelled": blocks}},
    }
    return case("later", {"inject": section}, **{**given, **fields})


def trial(number: int, answer: str | None, outcome: str = "scored", **fields: Any) -> dict[str, Any]:
    """One of several trials of a question, as records keep it."""
    return {
        "trial": number,
        "outcome": outcome,
        "passed": None if outcome == "errored" else number % 2 == 0,
        "errors": [{"stage": "qa", "kind": "judge_error", "message": f"no verdict {answer}"}]
        if outcome == "errored"
        else [],
        "stages": {"qa": outcome},
        "ratios": {"qa": {"judge_score": [number % 2, 1], "f1": [0.5, 1], "f1_by_type.temporal": [0.5, 1]}},
        "outputs": None if number == 0 else {"qa": {"answer": answer}},
        "facts": None,
        **fields,
    }


def qa_info(**fields: Any) -> SetInfo:
    return SetInfo(**{"path": QA_SET, "kind": "qa", "cases": 4, "protocol": PROTOCOL, **fields})


def rag_info(**fields: Any) -> SetInfo:
    return SetInfo(**{"path": RAG_SET, "kind": "rag", "cases": 4, **fields})
