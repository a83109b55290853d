"""What there is to see of a question, of a RAG sample, of a search, of trials: plain data from an entry of
``per_case``, which page, terminal and Markdown each show in their own way.

Texts are as the report has them: a digest, or ``None`` where it leaves them out. Each function gives ``None`` (or
nothing) for an entry that is about something else, and for what an older report does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: A judge's score from here on says that an answer is right, as the judge itself counts.
RIGHT_FROM = 0.5
#: Figures of a question that its view starts with, where it has them.
QUESTION_FIGURES: tuple[str, ...] = ("judge_score", "f1", "exact_match", "rougeL", "turn_recall", "session_recall")


def question_type(entry: Mapping[str, Any]) -> str | None:
    """A question's type: its first tag. ``None`` for a case of another kind."""
    tags = entry.get("tags") or ()
    return str(tags[0]) if entry.get("kind") == "qa" and tags else None


def question_view(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """A question: ``{type, category, question, date, truth, trap, corrected, answer, arms, verdicts, evidence,
    retrieved, more, told, tokens, figures}``.

    ``verdicts`` has a row ``{score, right, mode, reason, corrected}`` for each verdict, ``mode`` ``None`` for one by
    rule; ``corrected`` ones are on the errata's answer.
    ``evidence`` has a row ``{id, rank, content}`` for each message that holds the answer (rank from 1 among what was
    retrieved, ``None`` where it was not found), ``retrieved`` a row ``{id, hit}`` in the order of the ranking, of which
    ``more`` say how many were not kept. ``told`` is false where the memory does not say which messages its hits are
    from: nothing is known of hit or miss then.
    """
    output = _output(entry, "qa")
    if output is None:
        return None
    sources = list(output.get("sources") or ())
    found = output.get("evidence_found")
    if found is None:
        # Reports up to 1.9 name the evidence as published, which is by session in some sets.
        ranks = {source: rank for rank, source in reversed(list(enumerate(sources, 1)))}
        named = output.get("evidence_turns") or output.get("evidence") or ()
        found = [{"id": name, "rank": ranks.get(name), "content": None} for name in named]
    ids = {row["id"] for row in found}
    return {
        "type": question_type(entry),
        "category": output.get("category"),
        "question": output.get("question"),
        "date": output.get("question_date") or None,
        "truth": output.get("truth"),
        "trap": output.get("trap"),
        "corrected": output.get("corrected_truth"),
        "corrects": "corrected_truth" in output,
        "answer": output.get("answer"),
        "arms": dict(output.get("arms") or {}),
        "verdicts": list(_verdicts(entry, output)),
        "evidence": [dict(row) for row in found],
        "retrieved": [{"id": source, "hit": source in ids} for source in sources],
        "more": max(0, int(output.get("sources_in_all") or 0) - len(sources)),
        "told": bool(sources) or not output.get("hits"),
        "tokens": output.get("context_tokens"),
        "figures": _figures(entry, "qa", QUESTION_FIGURES),
    }


def _verdicts(entry: Mapping[str, Any], output: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    given = output.get("verdicts") or ()
    for one in given:
        yield {
            "score": one["score"],
            "right": one["score"] >= RIGHT_FROM,
            "mode": one.get("mode"),
            "reason": one.get("reason"),
            "corrected": one.get("of") is not None,
        }
    score = _figures(entry, "qa", ("judge_score",)).get("judge_score")
    if not given and score is not None:
        # Whether a question without an answer was refused is judged by rule, and nobody is asked.
        yield {"score": score, "right": score >= RIGHT_FROM, "mode": None, "reason": "", "corrected": False}


def evidence_found(view: Mapping[str, Any]) -> tuple[int, int] | None:
    """(found, wanted) of a question's evidence; ``None`` where it has none or nobody knows."""
    rows = view["evidence"]
    if not rows or not view["told"]:
        return None
    return sum(row["rank"] is not None for row in rows), len(rows)


def sample_view(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """A RAG sample: ``{query, contexts, response, has_response, reference, has_reference, references, scores}``; what
    it has may still be without its text.

    ``contexts`` has a row ``{text, relevant}`` for each passage in the order of the ranking (``relevant`` is ``None``
    where the sample has no reference passages), ``scores`` a row ``{evaluator, metrics, reason, failed}`` for each
    evaluator, ``metrics`` as metric → number, boolean, label or ``None`` (not measured).
    """
    output = _output(entry, "rag")
    if output is None or "contexts" not in output:
        return None
    contexts, relevant = output.get("contexts") or (), output.get("relevant")
    marks: Sequence[bool | None] = relevant if relevant is not None else [None] * len(contexts)
    return {
        "query": output.get("query"),
        "contexts": [{"text": text, "relevant": mark} for text, mark in zip(contexts, marks, strict=False)],
        "response": output.get("response"),
        "has_response": "response" in output,
        "reference": output.get("reference"),
        "has_reference": "reference" in output,
        "references": list(output.get("reference_contexts") or ()),
        "scores": list(_scores(entry)),
    }


def _scores(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    section = entry.get("rag") or {}
    details = section.get("details") or {}
    reasons: Mapping[str, Any] = details.get("feedback") or {}
    given: Mapping[str, Any] = details.get("scores") or {}
    for evaluator, metrics in given.items():
        failed = metrics is None
        said = [error["message"] for error in entry["errors"] if error["message"].startswith(f"{evaluator}: ")]
        reason = "; ".join(one.removeprefix(f"{evaluator}: ") for one in said) if failed else reasons.get(evaluator)
        yield {"evaluator": evaluator, "metrics": dict(metrics or {}), "reason": reason or None, "failed": failed}
    if not given and section.get("values"):
        # Reports up to 1.9 do not say which evaluator gave what.
        yield {"evaluator": None, "metrics": dict(section["values"]), "reason": None, "failed": False}
        yield from (
            {"evaluator": evaluator, "metrics": {}, "reason": reason, "failed": False}
            for evaluator, reason in reasons.items()
        )


def search_view(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row ``{query, hits, missed, figures}`` for each query of a case: ``hits`` as ``{id, content, relevant}`` in the
    order of the ranking (its first ten), ``missed`` the relevant ids that are not among them."""
    details = (entry.get("search") or {}).get("details") or {}
    made: Mapping[str, Any] = _output(entry, "search") or {}
    rows = []
    for query in details.get("queries") or ():
        relevant = list(query.get("relevant") or ())
        texts = {hit.get("id"): hit.get("content") for hit in made.get(query.get("query")) or ()}
        ids = query.get("ids") or ()
        rows.append(
            {
                "query": query.get("query"),
                "hits": [{"id": name, "content": texts.get(name), "relevant": name in relevant} for name in ids],
                "missed": [name for name in relevant if name not in ids],
                "figures": {name: query[name] for name in ("ndcg@10", "recall@10", "mrr") if name in query},
            }
        )
    return rows


def trials_view(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row ``{trial, outcome, passed, answer, figures, errors}`` for each trial of a case, counted from 1; nothing for
    a case that was measured once. ``answer`` is a question's answer or a sample's response."""
    rows = []
    for trial in entry.get("trials") or ():
        outputs = trial.get("outputs") or (entry.get("outputs") if trial.get("trial") == 0 else None) or {}
        said = (outputs.get("qa") or {}).get("answer") or (outputs.get("rag") or {}).get("response")
        figures = {
            f"{section}.{name}": pair[0] / pair[1]
            for section, ratios in (trial.get("ratios") or {}).items()
            for name, pair in ratios.items()
            if "." not in name and not name.startswith("_") and pair[1] and pair[0] is not None
        }
        rows.append(
            {
                "trial": trial.get("trial", 0) + 1,
                "outcome": trial["outcome"],
                "passed": trial.get("passed"),
                "answer": said,
                "figures": figures,
                "errors": [f"[{error['stage']}] {error['kind']}: {error['message']}" for error in trial["errors"]],
            }
        )
    return rows


def _output(entry: Mapping[str, Any], stage: str) -> Mapping[str, Any] | None:
    output = (entry.get("outputs") or {}).get(stage)
    return output if isinstance(output, Mapping) else None


def _figures(entry: Mapping[str, Any], section: str, names: Sequence[str]) -> dict[str, float]:
    values = (entry.get(section) or {}).get("values") or {}
    return {name: values[name] for name in names if isinstance(values.get(name), (int, float))}
