"""Agreement with people's labels, from a CSV."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_memeval.documents.problems import DocumentError
from pytest_memeval.judge.human import agreement_with, read_labels
from pytest_memeval.metrics.kappa import kappa_of_tables

HEADER = "question_id,question,ground_truth,prediction,human,judge\n"


def labels(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode())
    return path


def test_rows_are_read_as_spreadsheets_write_them(tmp_path: Path) -> None:
    text = (
        "\ufeffQuestion,Truth,Prediction,Human,question_type,mode\r\n"
        '"Who, then?",Ann,"She said ""Ann""\r\nand left",yes,single_hop,\r\n'
        "q2,b,c,0.4,,default_binary\r\n"
        "q3,b,c,,,\r\n"
        ",,,,,\r\n"
    )
    found = read_labels(labels(tmp_path, text))
    assert found.blank == 1
    one, two = found.rows
    assert (one.question, one.ground_truth, one.prediction) == ("Who, then?", "Ann", 'She said "Ann"\r\nand left')
    assert (one.human, one.judge, one.question_type, one.mode) == (True, None, "single_hop", "auto")
    assert (two.human, two.mode, two.question_id) == (False, "default_binary", "line-4")


@pytest.mark.parametrize(
    ("word", "label"),
    [
        ("yes", True),
        ("Correct", True),
        ("1", True),
        ("0.5", True),
        ("正确", True),
        ("no", False),
        ("0", False),
        ("错", False),
    ],
)
def test_words_for_right_and_wrong(tmp_path: Path, word: str, label: bool) -> None:
    assert read_labels(labels(tmp_path, f"{HEADER}q,q,t,p,{word},\n")).rows[0].human is label


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("question,prediction,human\nq,p,1\n", "no column 'ground_truth'"),
        ("question,ground_truth,prediction,humane\nq,t,p,1\n", "did you mean 'humane'"),
        (f"{HEADER}q,q,t,p,maybe,\n", "labels.csv:2: 'human' is 'maybe'"),
        (f"{HEADER}q,q,t,p,1,\nq,q,t,p,7,\n", "labels.csv:3: 'human' is '7'"),
        (f"{HEADER}q,q,t,p,1,nan\n", "'judge' is 'nan'"),
        (f"{HEADER}q,q,t,p,1,,extra\n", "labels.csv:2: more values"),
        (f"{HEADER}q,,t,p,1,\n", "the question is empty"),
        (f"{HEADER}q,q,t,p,,\n", "no row has a label"),
        (HEADER, "no row has a label"),
        ("", "no column 'question'"),
        ("question,ground_truth,prediction,human,mode\nq,t,p,1,continous\n", "did you mean 'continuous'"),
        (f'{HEADER}q,"q"x,t,p,1,\n', "no CSV that can be read"),
    ],
)
def test_faults_have_their_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_labels(labels(tmp_path, text))
    assert said in str(caught.value)


def test_kappa_by_hand(tmp_path: Path) -> None:
    pairs = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15
    rows = read_labels(
        labels(tmp_path, HEADER + "".join(f"q{n},q,t,p,{h},{j}\n" for n, (h, j) in enumerate(pairs)))
    ).rows
    found = agreement_with(rows, [row.judge for row in rows])
    assert found.kappa.value == pytest.approx(0.4)  # 0.7 agree, 0.5 by chance
    assert found.kappa.agreement == pytest.approx(0.7)
    assert (found.right, found.wrong, found.errors) == ((20, 25), (15, 25), 0)
    tables = [[int(h == 0 == j), int((h, j) == (0, 1)), int((h, j) == (1, 0)), int(h == 1 == j)] for h, j in pairs]
    by_name = [tables[n] for n in sorted(range(50), key=lambda n: f"q{n}")]
    assert (found.kappa.low, found.kappa.high) == (kappa_of_tables(by_name, 2).low, kappa_of_tables(by_name, 2).high)


def test_answers_without_a_verdict_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = read_labels(labels(tmp_path, HEADER + "q1,q,t,p,1,\nq2,q,t,p,0,\n")).rows
    found = agreement_with(rows, [None, False])
    assert (found.errors, found.wrong, found.kappa.value) == (1, (1, 1), None)
    nothing = agreement_with(rows, [None, None])
    assert (nothing.kappa.agreement, nothing.kappa.reason) == (None, "no answer was judged")
    assert nothing.to_json()["human_right"] == {"judged": 0, "taken_for_right": 0}
