"""What calls cost: a table of prices per model, and tokens times prices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.documents.problems import DocumentError, Problem
from pytest_memeval.llm.protocol import Usage

if TYPE_CHECKING:
    from pytest_memeval.results import CallRecord

SHIPPED_PRICES = Path(__file__).resolve().parent.parent / "data" / "prices.yaml"

# A dated snapshot is priced as its family: `name-2024-08-06`, `name-20240806`, `name-0613`.
_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4})\Z")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float


class PriceTable(Mapping[str, Price]):
    """Prices by model name. A name that is not in the table is looked up without its snapshot date."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = dict(prices)

    def __getitem__(self, model: str) -> Price:
        return self._prices[model]

    def __iter__(self) -> Any:
        return iter(self._prices)

    def __len__(self) -> int:
        return len(self._prices)

    def find(self, model: str | None) -> Price | None:
        """The price of a model, or ``None`` where it is unknown."""
        if model is None:
            return None
        return self._prices.get(model) or self._prices.get(_SNAPSHOT.sub("", model))


def load_prices(path: Path | None = None) -> PriceTable:
    """The shipped table; a user's file (same format) adds to it and overrides it.

    The format is ``models: {name: {input: 2.5, output: 10}}``, in US dollars per million tokens; 0 is a price (a model
    of one's own). Raises :class:`DocumentError` for a bad file.
    """
    prices = dict(_read(SHIPPED_PRICES))
    if path is not None:
        prices |= _read(path)
    return PriceTable(prices)


@cache
def _shipped() -> PriceTable:
    return load_prices()


def _read(path: Path) -> dict[str, Price]:
    import yaml

    def refuse(message: str, line: int = 0) -> DocumentError:
        return DocumentError([Problem(path, line, 0, message)])

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise refuse("is not UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise refuse("is no YAML", mark.line + 1 if mark is not None else 0) from None
    models = data.get("models") if isinstance(data, dict) else None
    if not isinstance(models, dict):
        raise refuse("has no mapping `models`")
    prices: dict[str, Price] = {}
    for name, row in models.items():
        fields = row if isinstance(row, dict) else {}
        given, taken = _amount(fields.get("input")), _amount(fields.get("output"))
        if given is None or taken is None:
            raise refuse(f"model {name!r}: needs `input` and `output` in US dollars per million tokens, not {row!r}")
        prices[str(name)] = Price(given, taken)
    return prices


def _amount(value: Any) -> float | None:
    """A price that is a finite number of at least 0, else ``None``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        return None
    return float(value)


def cost_of(usage: Usage, model: str | None, prices: PriceTable | None = None) -> float | None:
    """US dollars for the tokens of one or more calls; ``None`` (never 0) for an unknown model or unknown tokens."""
    price = (_shipped() if prices is None else prices).find(model)
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1_000_000


def price_of_call(call: CallRecord, prices: PriceTable | None = None, asked: str | None = None) -> float | None:
    """A call's list price in US dollars: by the server's own name of its model, else by the name it was ``asked`` for.

    The offline model is free, and so is a call that sent nothing and read no answer. ``None`` where the price or the
    tokens are not known.
    """
    if call.provider == "embedded" or (call.attempts == 0 and not call.cached):
        return 0.0
    usage = Usage(call.input_tokens, call.output_tokens)
    cost = cost_of(usage, call.model, prices)
    return cost if cost is not None or call.provider != "openai" else cost_of(usage, asked, prices)
