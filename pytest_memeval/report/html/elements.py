"""HTML built from values: whatever is no :class:`Html` is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pytest_memeval.report.messages import text
from pytest_memeval.report.numbers import value_text


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


#: What a child of an element may be; ``None`` leaves nothing.
Child = str | int | float | None
_VOID = frozenset({"meta", "link", "br", "input", "hr"})


def clean(value: object) -> str:
    """A value as escaped text that has a UTF-8 form."""
    if isinstance(value, Html):
        return value
    return escape(str(value).encode("utf-8", "backslashreplace").decode("utf-8"), quote=True)


def element(tag: str, *children: Child, **attributes: object) -> Html:
    """``<tag attributes>children</tag>``. ``class_`` gives ``class``, ``data_x`` gives ``data-x``; an attribute that is
    ``None`` or ``False`` is left out, one that is ``True`` stands without a value."""
    given = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{clean(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Html(f"<{tag}{given}>")
    inner = "".join(clean(child) for child in children if child is not None)
    return Html(f"<{tag}{given}>{inner}</{tag}>")


def joined(parts: Iterable[Child]) -> Html:
    return Html("".join(clean(part) for part in parts if part is not None))


def figure(path: str, value: float | None, shown: str | None = None) -> Html:
    """A number of the report with its place in it: ``data-path`` and, unrounded, ``data-value``."""
    return element(
        "span", value_text(value) if shown is None else shown, class_="figure", data_path=path,
        data_value="null" if value is None else repr(value),
    )  # fmt: skip


def grid(
    head: Sequence[Child],
    rows: Iterable[Sequence[Child]],
    *,
    right: frozenset[int] = frozenset(),
    caption: str | None = None,
    row_head: bool = False,
) -> Html:
    """A table that scrolls by itself where it is too wide; columns numbered in ``right`` are aligned to the right."""

    def cell(tag: str, at: int, value: Child, scope: str | None = None) -> Html:
        return element(tag, value, class_="right" if at in right else None, scope=scope)

    top = element("tr", *(cell("th", at, value, "col") for at, value in enumerate(head)))
    body = (
        element(
            "tr",
            *(
                cell("th", at, value, "row") if row_head and at == 0 else cell("td", at, value)
                for at, value in enumerate(row)
            ),
        )
        for row in rows
    )
    return element(
        "div",
        element(
            "table",
            element("caption", caption) if caption else None,
            element("thead", top),
            element("tbody", joined(body)),
        ),
        class_="scroll",
        tabindex="0",
        role="group",
        aria_label=caption,
    )


def code(value: object) -> Html:
    return element("code", str(value))


class Words:
    """The texts of one language."""

    def __init__(self, lang: str) -> None:
        self.lang = "zh" if lang == "zh" else "en"

    def __call__(self, key: str, **values: object) -> str:
        """A text of the page."""
        return text(f"html.{key}", self.lang, **values)

    def common(self, key: str, **values: object) -> str:
        """A text that other renderings use, too."""
        return text(key, self.lang, **values)
