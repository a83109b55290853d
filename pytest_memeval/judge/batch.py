"""Judging one answer, or many at once."""

from __future__ import annotations

import asyncio
import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.judge.chat_judge import ChatJudge, judge_refusal
from pytest_memeval.judge.modes import MODES, RULE_MODE, Mode, check_mode, mode_for, prompt_stage
from pytest_memeval.judge.protocol import Answered, text_of
from pytest_memeval.judge.score_file import ScoreFile
from pytest_memeval.judge.verdict import JudgeError, Verdict
from pytest_memeval.llm.cache_entry import canonical_json
from pytest_memeval.llm.cache_file import CacheError, CacheWarning
from pytest_memeval.llm.sync import run_sync

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.llm.protocol import ChatModel

#: Answers that are judged at once.
CONCURRENCY = 8
#: New scores after which the score file is written.
_SAVE_EVERY = 25


def judge_answer(
    question: str,
    ground_truth: Any,
    prediction: Any,
    *,
    llm: ChatModel | None = None,
    mode: str = "continuous",
    question_date: Any = None,
    prompts: PromptSet | None = None,
) -> float:
    """The score, from 0 to 1, of one answer by ``mode`` (see :data:`~pytest_memeval.judge.modes.MODES`).

    ``llm`` is the judge's chat model; only ``adversarial``, which goes by rule, does without. ``prompts`` replace the
    shipped judge prompts. Raises ValueError for an unknown mode or a missing ``llm``, JudgeError where no verdict can
    be had: there is no score then.
    """
    if mode == "auto":
        raise ValueError(f"mode 'auto' needs a question's type, as batch_judge has it: name one of {', '.join(MODES)}")
    checked = check_mode(mode)
    if checked == RULE_MODE:
        return judge_refusal(prediction).score
    if llm is None:
        raise ValueError(f"judge mode {checked!r} needs a chat model: pass llm=…; only 'adversarial' goes by rule")
    judge = ChatJudge(llm, prompts=prompts)
    return judge.judge_sync(question, ground_truth, prediction, checked, question_date=question_date).score


def batch_judge(
    results: Sequence[Answered],
    *,
    llm: ChatModel | None,
    mode: str = "auto",
    cache_path: str | Path | None = None,
    prompts: PromptSet | None = None,
    concurrency: int = CONCURRENCY,
) -> list[float | None]:
    """The score of each answered question, in their order; ``None`` where no verdict could be had (to be left out of
    means, and counted), an answer that is ``None`` included.

    ``mode`` ``auto`` goes by question type, and by ids that end with ``_abs``. ``cache_path`` is a JSON file of scores
    by question id and content: what it holds is not asked again, errors are never written to it. Raises ValueError for
    an unknown mode, and for a missing ``llm`` where one is needed. No results: an empty list.
    """
    outcomes = batch_verdicts(
        results, llm=llm, mode=mode, cache_path=cache_path, prompts=prompts, concurrency=concurrency
    )
    return [outcome.score if isinstance(outcome, Verdict) else None for outcome in outcomes]


def batch_verdicts(
    results: Sequence[Answered],
    *,
    llm: ChatModel | None,
    mode: str = "auto",
    cache_path: str | Path | None = None,
    prompts: PromptSet | None = None,
    concurrency: int = CONCURRENCY,
) -> list[Verdict | JudgeError]:
    """:func:`batch_judge` with the reasons: a verdict each, or why there is none."""
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")
    modes = [mode_for(result.question_type, str(result.question_id), mode) for result in results]
    judge = None if llm is None else ChatJudge(llm, prompts=prompts)
    needing = {checked for checked in modes if checked != RULE_MODE}
    if judge is None and needing:
        raise ValueError(f"judge modes {', '.join(sorted(needing))} need a chat model: pass llm=…")
    scores = None if cache_path is None or judge is None else ScoreFile(Path(cache_path))
    return run_sync(_Batch(judge, scores, concurrency).run(results, modes))


def content_hash(judge: ChatJudge, result: Answered, mode: Mode) -> str:
    """SHA-256 of everything that a score depends on: what is judged, by which mode, prompt, model and server."""
    identity = judge.identity()
    parts = [
        1,
        mode,
        str(result.question),
        text_of(result.ground_truth),
        text_of(result.prediction),
        text_of(getattr(result, "question_date", None)),
        identity["prompt_hashes"][prompt_stage(mode)],
        identity["model"],
        identity["endpoint"],
        getattr(judge.model, "default_max_tokens", None),
    ]
    return hashlib.sha256(canonical_json(parts).encode("ascii")).hexdigest()


class _Batch:
    def __init__(self, judge: ChatJudge | None, scores: ScoreFile | None, concurrency: int) -> None:
        self._judge = judge
        self._scores = scores
        self._slots = asyncio.Semaphore(concurrency)
        self._saving = asyncio.Lock()
        self._unsaved = 0

    async def run(self, results: Sequence[Answered], modes: Sequence[Mode]) -> list[Verdict | JudgeError]:
        try:
            return await asyncio.gather(*(self._one(*pair) for pair in zip(results, modes, strict=True)))
        finally:
            await self._save()  # also where the run is interrupted: what was paid for is kept

    async def _one(self, result: Answered, mode: Mode) -> Verdict | JudgeError:
        if result.prediction is None or getattr(result, "error", None):
            return JudgeError("there is no answer to judge", kind="no_answer")
        if mode == RULE_MODE:
            return judge_refusal(result.prediction)
        assert self._judge is not None
        key = content_hash(self._judge, result, mode) if self._scores is not None else ""
        if self._scores is not None and (held := self._scores.get(str(result.question_id), key)) is not None:
            return Verdict(held, mode, cached=True)
        async with self._slots:
            try:
                verdict = await self._judge.judge(
                    str(result.question),
                    result.ground_truth,
                    result.prediction,
                    mode,
                    question_date=getattr(result, "question_date", None),
                )
            except JudgeError as error:
                return error
        if self._scores is not None:
            self._scores.add(str(result.question_id), key, verdict.score, mode)
            self._unsaved += 1
            if self._unsaved >= _SAVE_EVERY:
                await self._save()
        return verdict

    async def _save(self) -> None:
        if self._scores is None:
            return
        async with self._saving:
            self._unsaved = 0
            try:
                self._scores.save()
            except CacheError as error:
                warnings.warn(f"{error}; the scores are not stored", CacheWarning, stacklevel=2)
                self._scores = None
