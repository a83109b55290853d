"""Templates: how a mode's context is put together from the store, section by section."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal, cast

from pytest_memeval.assets.nodes import Fields, content_hash, parse_asset, raise_problems
from pytest_memeval.assets.registry import Registry, load_registry
from pytest_memeval.documents.bounds import MAX_DAYS
from pytest_memeval.documents.problems import DocumentError, Problem, did_you_mean, nearest, shown

SHIPPED_TEMPLATES = Path(__file__).parent.parent / "data" / "templates"
#: Order of the modes that have these names; others follow by name.
MODE_ORDER = ("daily", "coding", "work", "full")

TEMPLATE_KEYS = ("name", "display_name", "token_budget", "exclusive", "sections")
SECTION_KEYS = ("id", "title", "query")
QUERY_KEYS = ("dimensions", "match", "priority_min", "time_window", "ttl_filter", "sort", "limit")
MATCHES = ("all", "any")
SORTS = ("priority", "recent")
TIME_WINDOW = re.compile(r"(\d+(?:\.\d+)?)\s*([hdw])")
#: How many lacking dimensions a message names.
_SHOWN = 3
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class SectionQuery:
    """Which memories a section takes.

    ``match`` ``all``: a memory carries every one of ``dimensions``; ``any``: at least one. ``time_window`` is the
    greatest age, ``ttl_filter`` leaves out memories past their dimension's TTL. ``priority`` sorts by falling
    priority, ``recent`` by falling time.
    """

    dimensions: tuple[str, ...]
    match: Literal["all", "any"] = "all"
    priority_min: float | None = None
    time_window: timedelta | None = None
    ttl_filter: bool = False
    sort: Literal["priority", "recent"] = "priority"
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class SectionSpec:
    id: str
    title: str
    query: SectionQuery


@dataclass(frozen=True, slots=True)
class Template:
    """One mode. With ``exclusive`` a memory is shown once, in the first section that claims it."""

    name: str
    display_name: str = ""
    token_budget: int | None = None
    exclusive: bool = True
    sections: tuple[SectionSpec, ...] = ()


def fold_title(title: str) -> str:
    """NFC without white space and emoji variation selectors, so that ``📅日常生活`` is ``📅 日常生活``."""
    composed = unicodedata.normalize("NFC", title)
    return "".join(char for char in composed if not char.isspace() and char not in "\ufe0e\ufe0f")


@dataclass(frozen=True)
class Templates:
    """All modes of a project in their order."""

    modes: Mapping[str, Template]
    path: Path | None = None
    content_hash: str = ""
    #: Why these cannot serve, in a sentence: the project has a registry of its own that lacks dimensions of theirs.
    #: What needs no templates is run all the same.
    unfit: str | None = None
    _sections: Mapping[str, Mapping[str, SectionSpec]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        table: dict[str, dict[str, SectionSpec]] = {}
        for mode, template in self.modes.items():
            names = table.setdefault(mode, {})
            for section in template.sections:
                names[section.id] = section
            for section in template.sections:
                names.setdefault(fold_title(section.title), section)
        object.__setattr__(self, "_sections", table)

    def get(self, mode: str) -> Template | None:
        return self.modes.get(mode)

    def find_section(self, mode: str, id_or_title: str) -> SectionSpec | None:
        """The section of ``mode`` with this id, else with this title (NFC, white space ignored)."""
        names = self._sections.get(mode, {})
        return names.get(id_or_title) or names.get(fold_title(id_or_title))

    def nearest_section(self, mode: str, id_or_title: str) -> str | None:
        """The id of the section of ``mode`` whose id or title is most like this; ``None`` where none is like it."""
        names = self._sections.get(mode, {})
        found = nearest(id_or_title, names)
        return None if found is None else names[found].id


def load_templates(path: Path | None = None, registry: Registry | None = None) -> Templates:
    """The templates in ``path``: a folder of ``*.yaml`` (one mode a file), one such file, or ``None`` for the shipped.

    Raises :class:`DocumentError` with every fault, a dimension unknown to ``registry`` (default: the shipped one)
    among them. Modes stand in the order daily, coding, work, full, then by name. The shipped templates are ``unfit``
    beside a registry that lacks some of their dimensions.
    """
    if path is not None:
        return _load(path, registry or load_registry())
    shipped = _load_shipped()
    return shipped if registry is None else beside(shipped, registry)


def beside(templates: Templates, registry: Registry) -> Templates:
    """Templates that were made for another registry, beside this one: ``unfit`` where it lacks dimensions of theirs."""
    lacking = _lacking(templates, registry)
    if not lacking:
        return replace(templates, unfit=None) if templates.unfit is not None else templates
    few = ", ".join(lacking[:_SHOWN]) + (", …" if len(lacking) > _SHOWN else "")
    named = "the shipped templates" if templates.path in (None, SHIPPED_TEMPLATES) else _shown(templates.path)
    verb = "name" if named == "the shipped templates" else "names"
    text = (
        f"{_shown(registry.path)} lacks dimensions that {named} {verb} ({few}): set memeval_templates"
        " (meta.templates in a case file) to templates of its own, as docs/how-to/own-registry.md shows"
    )
    return replace(templates, unfit=text)


def _lacking(templates: Templates, registry: Registry) -> list[str]:
    named = (
        label
        for template in templates.modes.values()
        for section in template.sections
        for label in section.query.dimensions
    )
    return [label for label in dict.fromkeys(named) if registry.get(label) is None]


def _shown(path: Path | None) -> str:
    if path is None:
        return "the registry"
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else str(path)


@lru_cache(maxsize=1)
def _load_shipped() -> Templates:
    return _load(SHIPPED_TEMPLATES, load_registry())


def _load(path: Path, registry: Registry) -> Templates:
    files = sorted([*path.glob("*.yaml"), *path.glob("*.yml")]) if path.is_dir() else [path]
    if not files:
        raise DocumentError([Problem(path, 0, 0, "no template (*.yaml) in this folder")])
    problems: list[Problem] = []
    found: dict[str, tuple[Template, Path]] = {}
    hashes: list[str] = []
    for file in files:
        try:
            root, digest = parse_asset(file, "template")
        except DocumentError as error:
            problems.extend(error.problems)
            continue
        template = _template(root, registry, file)
        problems.extend(root.problems)
        hashes.append(digest)
        if template.name in found:
            other = found[template.name][1].name
            problems.append(Problem(file, 1, 1, f"template {template.name!r} is already defined in {other}"))
        found.setdefault(template.name, (template, file))
    raise_problems(problems)
    order = sorted(found, key=lambda name: (MODE_ORDER.index(name) if name in MODE_ORDER else len(MODE_ORDER), name))
    modes = MappingProxyType({name: found[name][0] for name in order})
    return Templates(modes=modes, path=path, content_hash=content_hash("\n".join(hashes)))


def _template(root: Fields, registry: Registry, file: Path) -> Template:
    root.known_keys(TEMPLATE_KEYS)
    name = root.text("name", file.stem)
    root.what = f"template {name!r}"
    sections: list[SectionSpec] = []
    ids: dict[str, int] = {}
    titles: dict[str, int] = {}
    entries = root.mappings("sections", f"section of template {name!r}")
    if not entries and not root.problems:
        root.note(f"{root.what}: 'sections' must list at least one section", root.values.get("sections"))
    for entry in entries:
        entry.known_keys(SECTION_KEYS)
        if not entry.require("id"):
            continue
        identifier = entry.text("id")
        entry.what = f"section {identifier!r} of template {name!r}"
        title = entry.text("title", identifier)
        line = entry.values["id"].line
        for kind, key, seen in (("id", identifier, ids), ("title", fold_title(title), titles)):
            if seen.setdefault(key, line) != line:
                entry.note(f"{entry.what}: its {kind} stands twice, first on line {seen[key]}", entry.values["id"])
        query = entry.mapping("query", f"query of section {identifier!r}") if entry.require("query") else None
        if query is not None:
            sections.append(SectionSpec(identifier, title, _query(query, registry)))
    return Template(
        name=name,
        display_name=root.text("display_name", name),
        token_budget=root.integer("token_budget"),
        exclusive=root.boolean("exclusive", True),
        sections=tuple(sections),
    )


def _query(query: Fields, registry: Registry) -> SectionQuery:
    query.known_keys(QUERY_KEYS)
    dimensions = query.texts("dimensions")
    if not dimensions:
        query.note(f"{query.what}: 'dimensions' must name at least one dimension")
    for label, node in dimensions:
        if registry.get(label) is None:
            query.note(f"{query.what}: unknown dimension {label!r}{did_you_mean(label, registry.ids)}", node)
    return SectionQuery(
        dimensions=tuple(dict.fromkeys(label for label, _ in dimensions)),
        match=cast(Literal["all", "any"], query.choice("match", MATCHES, "all")),
        priority_min=query.number("priority_min"),
        time_window=_time_window(query),
        ttl_filter=query.boolean("ttl_filter", False),
        sort=cast(Literal["priority", "recent"], query.choice("sort", SORTS, "priority")),
        limit=query.integer("limit"),
    )


def _time_window(query: Fields) -> timedelta | None:
    text = query.text("time_window")
    if not text:
        return None
    match = TIME_WINDOW.fullmatch(text)
    if match is None or not float(match[1]):
        message = f"{query.what}: 'time_window' is {shown(text)}, not a number above 0 with h, d or w, such as 30d"
        query.note(message, query.values["time_window"])
        return None
    if float(match[1]) * (timedelta(**{_UNITS[match[2]]: 1}) / timedelta(days=1)) > MAX_DAYS:
        message = f"{query.what}: 'time_window' is {shown(text)}, more than {MAX_DAYS} days"
        query.note(message, query.values["time_window"])
        return None
    return timedelta(**{_UNITS[match[2]]: float(match[1])})
