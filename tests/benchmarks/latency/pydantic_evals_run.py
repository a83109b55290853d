"""The benchmark's calls by pydantic-evals: ``python pydantic_evals_run.py CALLS.json BASE_URL CONCURRENCY``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from pydantic_evals import Case, Dataset

calls, base_url, concurrency = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), sys.argv[2], int(sys.argv[3])
client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)


async def task(inputs: list[list[dict[str, str]]]) -> int:
    characters = 0
    for messages in inputs:
        asked: Any = messages
        reply: Any = await client.chat.completions.create(model="gpt-4o-mini", messages=asked)
        characters += len(reply.choices[0].message.content)
    return characters


dataset: Any = Dataset(name="latency", cases=[Case(name=str(n), inputs=inputs) for n, inputs in enumerate(calls)])
report = dataset.evaluate_sync(task, max_concurrency=concurrency, progress=False)
assert len(report.cases) == len(calls), report
assert all(case.output > 0 for case in report.cases)
