"""A tuning run's folder: ``tuning.json`` and what is made from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_memeval.documents.json_values import json_value
from pytest_memeval.report.console import columns
from pytest_memeval.report.languages import LANGUAGES
from pytest_memeval.report.markdown_cells import code, escape, table
from pytest_memeval.report.reader import REPORT_NAME, ReportError, readable
from pytest_memeval.report.write import write_lines
from pytest_memeval.tuning.html_page import html_page
from pytest_memeval.tuning.wording import Words, number, params_text

SCHEMA_VERSION = "1.0"
JSON_NAME = "tuning.json"
#: The files of a folder, ``tuning.json`` last, with their kind (see ``owned_files.KINDS``).
FILES: Mapping[str, str] = {"tuning.md": "tuning markdown", "tuning.html": "html", JSON_NAME: "tuning"}


def write_tuning(folder: Path, document: Mapping[str, Any], lang: str) -> list[Path]:
    """Write ``tuning.md``, ``tuning.html`` and ``tuning.json`` (last) and return their paths. OSError if it cannot."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    paths = [folder / name for name in FILES]
    for path, content in zip(paths, (markdown_page(document, lang), html_page(document, lang), text), strict=True):
        write_lines(path, [content.rstrip("\n") + "\n"])
    return paths


def is_tuning(path: Path) -> bool:
    """Whether a path is a tuning document, or a folder with one and without the report of a run. Reads its beginning
    only."""
    if path.is_dir():
        return (path / JSON_NAME).is_file() and not (path / REPORT_NAME).is_file()
    try:
        with path.open("rb") as file:
            return re.search(rb'"kind"\s*:\s*"tuning"', file.read(4096)) is not None
    except OSError:
        return False


def load_tuning(path: Path) -> dict[str, Any]:
    """The tuning document at ``path``: the file, or its folder. ReportError for one that this version cannot show."""
    file = path / JSON_NAME if path.is_dir() else path
    try:
        document = json_value(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ReportError(f"There is no tuning document at {file}: {error.strerror or error}.") from error
    except ValueError as error:
        raise ReportError(f"{file} is not valid JSON: {error}.") from error
    if not isinstance(document, dict) or document.get("kind") != "tuning":
        raise ReportError(f"{file} is no tuning document: memeval tune writes one as {JSON_NAME}.")
    version, known = str(document.get("schema_version")), SCHEMA_VERSION.partition(".")[0]
    if version.partition(".")[0] != known:
        raise ReportError(f"{file} has schema version {version}; this version of memeval reads {known}.x.")
    with readable(str(file)):
        # Whatever it lacks is told here, and not in the middle of a page.
        for lang in LANGUAGES:
            markdown_page(document, lang)
            html_page(document, lang)
    return document


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
