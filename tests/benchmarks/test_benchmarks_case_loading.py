"""How long a large case file takes: figures to read, no limits to fail."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_memeval.cases.loader import load_case_set

CASES = 10_000
CASE = """\
  - case_id: eval-{n:05d}
    source: synthetic
    difficulty: medium
    tags: [zh, large]
    conversation: |
      [msg#1] 2026-01-01T11:00:00Z user:
        我在深圳做后端开发，最近把服务从 Go 改写成 Python，编号 {n}，每天六点起床跑步。
      [msg#2] 2026-01-01T11:01:00Z assistant:
        Noted. I will keep that in mind for the next conversation, and remind you of the morning run.
      [msg#3] 2026-01-01T11:02:00Z user:
        And I live with my wife and two cats near the sea.
    existing_memories:
      - {{memory_id: m1, content: "用 Go 写服务", dimensions: [tech_stack], memory_type: episodic, priority: 80}}
    expected_l1:
      memories:
        - content: "把服务从 Go 改写成 Python {n}"
          dimensions: [projects, tech_stack]
          memory_type: episodic
          priority: 80
          time_velocity: static
          source_message_ids: ["msg_1"]
        - content: "每天六点起床跑步"
          dimensions: [habits]
          memory_type: persona
          priority: 70
          time_velocity: static
          source_message_ids: ["msg_1"]
    expected_l15:
      actions:
        - {{new_memory_index: 0, candidate_ids: [m1], action: update, merged_content: "用 Python 写服务"}}
    expected_l2:
      scene_labels: ["服务改写", "日常作息"]
      template_section:
        coding: {{"0": "📦 项目进展"}}
        daily: {{"1": "📅 日常生活"}}
    notes: "padding {padding}"
"""


@pytest.mark.slow
def test_a_16_mb_file_loads_and_loads_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "large.yaml"
    text = "cases:\n" + "".join(CASE.format(n=number, padding="x" * 200) for number in range(CASES))
    path.write_text(text, encoding="utf-8")
    seconds = []
    for _ in range(2):
        started = time.process_time()
        case_set = load_case_set(path, cache_dir=tmp_path / "cache")
        seconds.append(time.process_time() - started)
        assert case_set.problems == ()
        assert len(case_set.cases) == CASES
        assert not any(case.problems for case in case_set.cases)
    size = path.stat().st_size / 1e6
    with capsys.disabled():
        print(f"\n{CASES} cases, {size:.1f} MB: first {seconds[0]:.2f} s, unchanged {seconds[1]:.2f} s of CPU")
