"""The benchmark's calls by inspect_ai: ``python inspect_ai_run.py CALLS.json BASE_URL CONCURRENCY``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, GenerateConfig, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import solver

calls, base_url, concurrency = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), sys.argv[2], int(sys.argv[3])
config = GenerateConfig(max_connections=concurrency, max_retries=0)
model = get_model("openai/gpt-4o-mini", base_url=base_url, api_key="none", config=config, responses_api=False)


@solver
def three_calls() -> Any:
    async def solve(state: Any, generate: Any) -> Any:
        for messages in state.metadata["calls"]:
            state.output = await model.generate([ChatMessageUser(content=messages[-1]["content"])])
        return state

    return solve


samples = [Sample(input=str(n), target="[", metadata={"calls": inputs}) for n, inputs in enumerate(calls)]
task = Task(dataset=samples, solver=three_calls(), scorer=includes())
logs = eval(task, model=model, max_samples=concurrency, max_connections=concurrency, display="none", log_dir="logs")
assert logs[0].status == "success", logs[0].error
