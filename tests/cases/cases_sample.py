"""A case file that uses every field."""

from __future__ import annotations

FULL = """\
# yaml-language-server: $schema=cases.schema.json
meta:
  version: v001
  created_at: 2026-08-06
  total_cases: 2
  description: all fields
  timezone: Asia/Shanghai
  gates: ["P0 l1.dimension_micro_f1 >= 0.75", "P1 search.ndcg@10 > 1e-1"]
  owner: {team: 7}
kind: distill
cases:
  - case_id: eval-001
    source: synthetic
    difficulty: easy
    tags: [slow, zh, slow]
    timeout: 2.5
    now: "2026-01-01T18:01:00"
    conversation: |
      [msg#1] 2026-01-01T10:00:00Z user:
        我叫张明，在深圳做后端开发
      [msg#2] user: I moved to Berlin
    existing_memories:
      - {memory_id: m1, content: 住在深圳, dimensions: [identity], memory_type: persona, priority: 80,
         time_velocity: static, source_message_ids: [msg_0], created_at: "2025-01-01T00:00:00Z", extra: {k: 010}}
    existing_scenes: [{scene_id: s1, title: 生活, memory_ids: [m1]}]
    expected_l1:
      memories:
        - content: 张明，后端开发
          dimensions: [identity, Skills]
          memory_type: persona
          priority: 85
          time_velocity: static
          source_message_ids: ["msg_1"]
          extra: {why: {deep: [1, no, 3.10]}}
        - {content: moved to Berlin, dimensions: [identity]}
    expected_l15:
      actions:
        - {new_memory_index: 0, action: store}
        - {new_memory_index: 1, candidate_ids: [m1], action: update, merged_content: 住在柏林, reason: moved}
    expected_l2:
      scene_labels: [个人信息]
      scenes: [{label: 个人信息, memories: [0, 1]}]
      template_section:
        daily: {"0": "👤 基本信息", 1: basic_info}
    expected_inject:
      mode: coding
      subsequent_conversation: "[msg#9] user: which language?"
      referenced_memory_indices: [1]
    expected_search_results:
      - {query: where does he live, relevant: [1, "eval-002#0"], grades: [2, 0.5]}
    expect: {l1.dimension_micro_f1: ">= 0.6", l1.priority_mae: "<= 1e1"}
    annotations: {b: {memories: [{content: x, dimensions: [skills]}]}}
    extra: {ticket: 12, flag: no}
    notes: 3.10
  - case_id: eval-002
    conversation: [{role: user, content: 12:30}]
    expected_l1: {memories: [{content: 010, dimensions: [habits]}]}
    expected_search_results: {when: [0]}
"""
