from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_memeval.assets.registry import SHIPPED_REGISTRY, Dimension, Registry, fold_label, load_registry
from pytest_memeval.documents.problems import DocumentError

SHIPPED_IDS = (
    *("identity", "family", "social", "values", "skills", "tech_stack", "preferences", "habits"),
    *("environment", "style", "focus", "projects", "goals", "tasks", "status"),
)


def write(folder: Path, text: str) -> Path:
    path = folder / "registry.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def problems_of(folder: Path, text: str) -> list[str]:
    path = write(folder, text)
    with pytest.raises(DocumentError) as caught:
        load_registry(path)
    assert all(problem.path == path for problem in caught.value.problems)
    return [f"{problem.line}: {problem.message}" for problem in caught.value.problems]


def test_shipped_registry_has_the_fifteen_dimensions_in_full() -> None:
    registry = load_registry()
    assert registry.ids == SHIPPED_IDS
    assert (registry.priority_min, registry.priority_max, registry.max_dimensions) == (0, 100, 3)
    assert registry.memory_types == ("persona", "episodic", "instruction")
    for dimension in registry.dimensions:
        assert dimension.description
        assert dimension.boundaries
        assert len(dimension.cues) >= 30
        # Both languages are served: by name, text, cues and aliases.
        for texts in ((dimension.display_name,), (dimension.description,), dimension.cues, dimension.aliases):
            joint = " ".join(texts)
            assert any("一" <= char <= "鿿" for char in joint), dimension.id
            assert any(char.isascii() and char.isalpha() for char in joint), dimension.id
        assert (dimension.ttl_days is None) == (dimension.time_velocity == "static"), dimension.id


def test_shipped_registry_meets_its_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((SHIPPED_REGISTRY.parent / "schemas" / "registry.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(SHIPPED_REGISTRY.read_text(encoding="utf-8")), schema)


def test_shipped_registry_is_loaded_once() -> None:
    assert load_registry() is load_registry(None)


@pytest.mark.parametrize(
    ("label", "dimension", "how"),
    [
        ("tech_stack", "tech_stack", "exact"),
        ("TECH_STACK", "tech_stack", "exact"),
        ("ｓｋｉｌｌｓ", "skills", "exact"),
        ("  Tech \t Stack ", "tech_stack", "alias"),
        ("技术栈", "tech_stack", "alias"),
        ("身份 Identity", "identity", "alias"),
        ("preferencs", "preferences", "fuzzy"),
        ("astrology", None, "unknown"),
        ("", None, "unknown"),
        (" \n", None, "unknown"),
    ],
)
def test_labels_resolve(label: str, dimension: str | None, how: str) -> None:
    resolution = load_registry().resolve(label)
    assert (resolution.dimension, resolution.how) == (dimension, how)
    assert 0 <= resolution.score <= 1
    if how == "fuzzy":
        assert 0.85 <= resolution.score < 1
    if how == "unknown":
        assert resolution.score < 0.85


@given(st.text(max_size=30))
def test_any_label_resolves_to_a_known_dimension_or_none(label: str) -> None:
    registry = load_registry()
    resolution = registry.resolve(label)
    assert resolution.dimension is None or registry.get(resolution.dimension) is not None
    assert resolution == registry.resolve(label)
    assert fold_label(fold_label(label)) == fold_label(label)


@given(st.sampled_from(load_registry().dimensions), st.data())
def test_ids_and_aliases_survive_case_and_white_space(dimension: Dimension, data: st.DataObject) -> None:
    registry = load_registry()
    label = data.draw(st.sampled_from([dimension.id, *dimension.aliases]))
    assert registry.resolve(f" {label.upper()}\u3000").dimension == dimension.id


def test_own_registry_with_other_types_and_defaults(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "memory_types: [fact, rule]\ntime_velocities: [slow, fast]\npriority: [0, 1]\nmax_dimensions: 2\n"
        "dimensions:\n  - {id: no, ttl_days: 3.5}\n  - {id: '010', display_name: 3.10, time_velocity: fast}\n",
    )
    registry = load_registry(path)
    assert registry.ids == ("no", "010")
    assert registry.memory_types == ("fact", "rule")
    assert (registry.priority_min, registry.priority_max, registry.max_dimensions) == (0, 1, 2)
    first, second = registry.dimensions
    assert (first.time_velocity, first.ttl_days, first.display_name) == ("slow", 3.5, "no")
    assert (second.time_velocity, second.display_name) == ("fast", "3.10")
    assert registry.path == path
    bare = load_registry(write(tmp_path, "dimensions: [{id: a}]\n"))
    assert (bare.memory_types, bare.max_dimensions) == (Registry.memory_types, 3)


def test_f34_byte_order_mark_and_crlf_change_nothing(tmp_path: Path) -> None:
    text = "dimensions:\n  - id: a\n    description: |\n      one\n      two\n"
    plain = load_registry(write(tmp_path, text))
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    other = load_registry(path)
    assert other.dimensions == plain.dimensions
    assert other.content_hash == plain.content_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "dimensions:\n  - {id: a, descripton: x}\n",
            ["2: dimension: unknown key 'descripton'; did you mean 'description'?"],
        ),
        ("dimensions:\n  - {id: a}\n  - {id: ' '}\n", ["3: dimension: 'id' is empty"]),
        ("dimension: []\n", ["1: registry: unknown key 'dimension'; did you mean 'dimensions'?"]),
        ("dimensions:\n  - {id: a}\n  - {id: b}\n  - {id: a}\n", ["4: dimension id 'a' stands twice, first on line 2"]),
        ("dimensions:\n  - {display_name: a}\n", ["2: dimension: 'id' is missing"]),
        (
            "dimensions:\n  - {id: a, aliases: [Tech Stack]}\n  - id: b\n    aliases:\n      - 'ｔech  stack'\n",
            ["5: label 'ｔech  stack' of dimension 'b' already names 'a' (line 2)"],
        ),
        (
            "dimensions:\n  - {id: a, aliases: [b]}\n  - {id: b}\n",
            ["3: label 'b' of dimension 'b' already names 'a' (line 2)"],
        ),
        (
            "dimensions:\n  - {id: a, time_velocity: statc}\n",
            ["2: dimension 'a': 'time_velocity' is 'statc'; did you mean 'static'?"],
        ),
        ("dimensions:\n  - {id: a, ttl_days: soon}\n", ["2: dimension 'a': 'ttl_days' must be a number, not 'soon'"]),
        (
            "dimensions:\n  - {id: a, ttl_days: 1e12}\n",
            ["2: dimension 'a': 'ttl_days' must be at most 1000000, not 1e+12"],
        ),
        ("dimensions:\n  - {id: a, ttl_days: -1}\n", ["2: dimension 'a': 'ttl_days' must be above 0 or null, not -1"]),
        ("dimensions:\n  - {id: a, cues: word}\n", ["2: dimension 'a': 'cues' must be a list, not 'word'"]),
        ("dimensions:\n  - just text\n", ["2: dimension must be a mapping, not 'just text'"]),
        (
            "dimensions:\n  - {id: 'a|b'}\n",
            ["2: dimension id 'a|b' must not contain '|', ',', '=' or control characters"],
        ),
        ("priority: [100, 0]\ndimensions: [{id: a}]\n", ["1: registry: 'priority' must be [smallest, largest]"]),
        (
            "max_dimensions: 0\ndimensions: [{id: a}]\n",
            ["1: registry: 'max_dimensions' must be a whole number of at least 1, not 0"],
        ),
        ("- a\n", ["1: registry must be a mapping, not a list"]),
    ],
)
def test_bad_registry_names_line_value_and_nearest(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert problems_of(tmp_path, text) == expected


def test_f15_duplicate_key_in_a_dimension(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, "dimensions:\n  - id: a\n    category: x\n    category: y\n")
    assert problem.startswith("4: ")
    assert "category" in problem


def test_all_faults_are_reported_at_once(tmp_path: Path) -> None:
    text = "nonsense: 1\ndimensions:\n  - {id: a, ttl_days: x}\n  - {id: a}\n"
    assert [problem.split(":")[0] for problem in problems_of(tmp_path, text)] == ["1", "3", "4"]


def test_empty_registry_is_refused(tmp_path: Path) -> None:
    assert problems_of(tmp_path, "dimensions: []\n") == ["1: registry: 'dimensions' must list at least one dimension"]


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, "dimensions: [{id: a}]\n")
    with pytest.raises(DocumentError, match=r"registry does not exist; did you mean 'registry\.yaml'\?"):
        load_registry(tmp_path / "registy.yaml")
    with pytest.raises(DocumentError, match=r"registry does not exist$"):
        load_registry(tmp_path / "nowhere" / "r.yaml")
