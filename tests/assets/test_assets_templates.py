from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from pytest_memeval.assets.registry import load_registry
from pytest_memeval.assets.templates import SHIPPED_TEMPLATES, Templates, load_templates
from pytest_memeval.documents.problems import DocumentError

SHIPPED_TITLES = {
    "👤 基本信息", "💼 职业背景", "🏠 家庭与社交", "📅 日常生活", "💡 偏好与风格", "📊 当前状态", "📦 项目进展",
    "🔧 技术决策", "📋 编码规范", "📋 当前任务", "📚 技能学习", "🎯 目标与 OKR",
}  # fmt: skip
SECTION = "sections:\n  - {id: s, title: S, query: {dimensions: [skills]}}\n"


def load(folder: Path, text: str, name: str = "mine.yaml") -> Templates:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_templates(path, load_registry())


def problems_of(folder: Path, text: str) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        load(folder, text)
    return [f"{problem.line}: {problem.message}" for problem in caught.value.problems]


def test_shipped_templates() -> None:
    templates = load_templates(None, load_registry())
    assert list(templates.modes) == ["daily", "coding", "work", "full"]
    titles = {section.title for template in templates.modes.values() for section in template.sections}
    assert titles == SHIPPED_TITLES
    assert templates is load_templates(None, load_registry())
    assert all(template.exclusive for template in templates.modes.values())


def test_shipped_templates_meet_their_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((SHIPPED_TEMPLATES.parent / "schemas" / "template.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    for file in SHIPPED_TEMPLATES.glob("*.yaml"):
        jsonschema.validate(yaml.safe_load(file.read_text(encoding="utf-8")), schema)


def test_sections_are_found_by_id_and_by_title() -> None:
    templates = load_templates()
    for text in ("daily_life", "📅 日常生活", "📅日常生活", " 📅\ufe0f  日常生活 "):
        section = templates.find_section("full", text)
        assert section is not None
        assert section.id == "daily_life"
    assert templates.find_section("coding", "📅 日常生活") is None
    assert templates.find_section("nowhere", "daily_life") is None
    assert templates.get("coding") is not None
    assert templates.get("coding2") is None


def test_every_query_field(tmp_path: Path) -> None:
    templates = load(
        tmp_path,
        "exclusive: false\ntoken_budget: 50\nsections:\n  - id: s\n    "
        "query: {dimensions: [skills, goals], match: any, priority_min: 1e1, time_window: 2w, ttl_filter: true, "
        "sort: recent, limit: 7}\n  - {id: t, query: {dimensions: [goals]}}\n",
    )
    template = templates.modes["mine"]
    assert (template.exclusive, template.token_budget, template.name) == (False, 50, "mine")
    query = template.sections[0].query
    assert query.dimensions == ("skills", "goals")
    assert (query.match, query.priority_min, query.sort, query.limit) == ("any", 10.0, "recent", 7)
    assert query.time_window == timedelta(weeks=2)
    assert query.ttl_filter is True
    defaults = template.sections[1].query
    assert (defaults.match, defaults.priority_min, defaults.time_window, defaults.limit) == ("all", None, None, None)
    assert (defaults.ttl_filter, template.sections[1].title) == (False, "t")


def test_folder_orders_modes(tmp_path: Path) -> None:
    for name in ("zeta", "full", "alpha", "daily"):
        (tmp_path / f"{name}.yaml").write_text(SECTION, encoding="utf-8")
    assert list(load_templates(tmp_path, load_registry()).modes) == ["daily", "full", "alpha", "zeta"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "sections:\n  - {id: s, query: {dimensions: [skils]}}\n",
            ["2: query of section 's': unknown dimension 'skils'; did you mean 'skills'?"],
        ),
        (
            "sections:\n  - {id: s, query: {dimensions: [skills], sort: prio}}\n",
            ["2: query of section 's': 'sort' is 'prio'; did you mean 'priority'?"],
        ),
        (
            "sections:\n  - {id: s, query: {dimensions: [skills], match: either}}\n",
            ["2: query of section 's': 'match' is 'either'; known: all, any"],
        ),
        (
            "sections:\n  - id: s\n    query:\n      dimensions: [skills]\n      time_window: a month\n",
            ["5: query of section 's': 'time_window' is 'a month', not a number above 0 with h, d or w, such as 30d"],
        ),
        (
            "sections:\n  - {id: s, query: {dimensions: [skills], time_window: 99999999999d}}\n",
            ["2: query of section 's': 'time_window' is '99999999999d', more than 1000000 days"],
        ),
        (
            "sections:\n  - {id: s, query: {dimensions: [skills], limt: 3}}\n",
            ["2: query of section 's': unknown key 'limt'; did you mean 'limit'?"],
        ),
        (
            "sections:\n  - {id: s, query: {dimensions: []}}\n",
            ["2: query of section 's': 'dimensions' must name at least one dimension"],
        ),
        ("sections:\n  - {id: s}\n", ["2: section 's' of template 'mine': 'query' is missing"]),
        ("section: []\n" + SECTION, ["1: template: unknown key 'section'; did you mean 'sections'?"]),
        (
            SECTION + "  - {id: s, title: T, query: {dimensions: [goals]}}\n",
            ["3: section 's' of template 'mine': its id stands twice, first on line 2"],
        ),
        (
            SECTION + "  - {id: t, title: ' S', query: {dimensions: [goals]}}\n",
            ["3: section 't' of template 'mine': its title stands twice, first on line 2"],
        ),
        ("exclusive: maybe\n" + SECTION, ["1: template 'mine': 'exclusive' is 'maybe'; known: true, false"]),
        (
            "token_budget: 1.5\n" + SECTION,
            ["1: template 'mine': 'token_budget' must be a whole number of at least 1, not 1.5"],
        ),
        ("name: x\n", ["1: template 'x': 'sections' must list at least one section"]),
    ],
)
def test_bad_templates_name_line_value_and_nearest(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert problems_of(tmp_path, text) == expected


def test_two_files_of_one_mode_and_an_empty_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text("name: same\n" + SECTION, encoding="utf-8")
    with pytest.raises(DocumentError, match=r"b\.yaml:1:1: template 'same' is already defined in a\.yaml"):
        load_templates(tmp_path, load_registry())
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DocumentError, match="no template"):
        load_templates(empty, load_registry())


def test_faults_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("nope", encoding="utf-8")
    (tmp_path / "b.yaml").write_text("x: 1\n" + SECTION, encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        load_templates(tmp_path, load_registry())
    assert [problem.path.name for problem in caught.value.problems] == ["a.yaml", "b.yaml"]
