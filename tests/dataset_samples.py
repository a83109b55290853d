"""Small benchmark files in the published layouts, made up here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def locomo_record(sample_id: str = "conv-1", *, flat: bool = False) -> dict[str, Any]:
    conversation: dict[str, Any] = {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ann", "dia_id": "D1:1", "text": "I adopted a cat called Miso."},
            {
                "speaker": "Ben",
                "dia_id": "D1:2",
                "text": "Look at my boat!",
                "blip_caption": "a photo of a red boat",
                "img_url": ["https://example.org/boat.jpg"],
            },
        ],
        "session_2_date_time": "9:05 am on 1 June, 2023",
        "session_2": [
            {"speaker": "Ann", "dia_id": "D2:1", "text": "I moved to Leeds last week."},
            {"speaker": "Ben", "dia_id": "D2:2", "text": "I play the flute and the drums."},
        ],
        "session_3_date_time": "9:05 am on 2 June, 2023",
    }
    questions = [
        {
            "question": "What are Ann's cat and city?",
            "answer": "Miso, Leeds",
            "evidence": ["D1:1; D2:1"],
            "category": 1,
        },
        {"question": "When did Ann move?", "answer": 2023, "evidence": ["D:2:1"], "category": 2},
        {"question": "Is Ben musical?", "answer": "Likely yes; he plays", "evidence": ["D2:02"], "category": 3},
        {"question": "What colour is Ben's boat?", "answer": "red", "evidence": ["D1:2", "D"], "category": 4},
        {"question": "Where does Ann sail?", "adversarial_answer": "Leeds", "evidence": ["D9:9"], "category": 5},
        {"question": "What does Ben play?", "answer": "flute", "evidence": [], "category": 4},
    ]
    body = conversation if flat else {"conversation": conversation}
    return {"qa": questions, **body, "sample_id": sample_id}


def longmemeval_record(question_id: str = "q1", *, kind: str = "single-session-user", **changes: Any) -> dict[str, Any]:
    return {
        "question_id": question_id,
        "question_type": kind,
        "question": "Where do I keep my spare key?",
        "answer": "Under the fern",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/21 (Sun) 10:00", "2023/05/20 (Sat) 02:21"],
        "haystack_session_ids": ["answer_1", "noise_1"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "My spare key lies under the fern.", "has_answer": True},
                {"role": "assistant", "content": "Noted."},
            ],
            [
                {"role": "user", "content": "Which tea has no caffeine?"},
                {"role": "assistant", "content": "Rooibos has none."},
            ],
        ],
        "answer_session_ids": ["answer_1"],
        **changes,
    }


def write_json(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    return path
