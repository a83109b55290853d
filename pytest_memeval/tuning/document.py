"""A tuning run's folder: ``tuning.json`` and what is made from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_memeval.report.console import columns
from pytest_memeval.report.markdown import code, escape, table
from pytest_memeval.report.write import write_lines
from pytest_memeval.tuning.html_page import html_page
from pytest_memeval.tuning.wording import Words, number, params_text

SCHEMA_VERSION = "1.0"
JSON_NAME = "tuning.json"


def write_tuning(folder: Path, document: Mapping[str, Any], lang: str) -> list[Path]:
    """Write ``tuning.md``, ``tuning.html`` and ``tuning.json`` (last) and return their paths. OSError if it cannot."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    paths = [folder / "tuning.md", folder / "tuning.html", folder / JSON_NAME]
    for path, content in zip(paths, (markdown_page(document, lang), html_page(document, lang), text), strict=True):
        write_lines(path, [content.rstrip("\n") + "\n"])
    return paths


def terminal_lines(document: Mapping[str, Any], lang: str) -> Iterator[str]:
    """What a person reads first."""
    words = Words(document, lang)
    yield f"{document['case_set']}: {words.input_line()}"
    if (partial := words.partial_line()) is not None:
        yield partial
    for line in columns(words.value_rows()):
        yield f"  {line}"
    yield from words.unseen_lines()
    if rows := words.sensitivity_rows():
        yield ""
        for line in columns([words.sensitivity_head(), *rows], right=frozenset({1, 2, 3})):
            yield f"  {line}"
        yield ""
    if document["rrf"]["conclusion"] != "conclusive":
        yield from words.diagnosis_lines()
    yield from words.remarks()
    yield f"{document['rrf']['conclusion'] or '-'}: {words.reason()}"


def markdown_page(document: Mapping[str, Any], lang: str) -> str:
    return "\n".join(_markdown(Words(document, lang))) + "\n"


def _markdown(words: Words) -> Iterator[str]:
    document, rrf = words.document, words.rrf
    yield f"# {words('title')}: {escape(document['case_set'])}"
    yield ""
    yield f"**{words.verdict()}** (`{rrf['conclusion']}`). {escape(words.reason())}"
    yield ""
    if (partial := words.partial_line()) is not None:
        yield f"**{partial}**"
        yield ""
    yield escape(words.input_line())
    yield ""
    rows = [
        [what, code(params) if "=" in params else escape(params), score] for what, params, score in words.value_rows()
    ]
    yield from table(["", words("parameter"), words("score")], rows)
    yield ""
    for line in (*words.unseen_lines(), *words.method_lines()):
        yield f"- {escape(line)}"
    yield ""
    if rrf["param_sensitivity"]:
        yield f"## {words('sensitivity')}"
        yield ""
        yield from table(
            words.sensitivity_head(),
            [[escape(cell) for cell in row] for row in words.sensitivity_rows()],
            frozenset({1, 2, 3}),
        )
        yield ""
        yield escape(words("spread_note"))
        yield ""
        for name in rrf["param_sensitivity"]:
            yield f"### {escape(name)}"
            yield ""
            yield from table(
                words.curve_head(),
                [[escape(cell) for cell in row] for row in words.curve_rows(name)],
                frozenset({0, 1, 2}),
            )
            yield ""
    for title, lines in ((words("diagnosis"), words.diagnosis_lines()), (words("remarks"), words.remarks())):
        if lines:
            yield f"## {title}"
            yield ""
            yield from (f"- {escape(line)}" for line in lines)
            yield ""
    shown, more = words.best_results()
    if shown:
        yield f"## {words('results')}"
        yield ""
        yield from table(
            [words("parameter"), words("score")],
            [[code(params_text(one["params"])), number(one["score"])] for one in shown],
            frozenset({1}),
        )
        yield ""
        if more:
            yield words("more", count=more)
            yield ""
