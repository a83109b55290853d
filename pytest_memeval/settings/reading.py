"""A run's settings from its options: the command line's value, else the ini's, else the default."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.options import OPTIONS, Option, SettingsError
from pytest_memeval.settings.checks import check_names, check_values
from pytest_memeval.settings.model import Settings

if TYPE_CHECKING:
    from pytest_memeval.settings.variants import Variant


def read_settings(
    from_command_line: Callable[[Option], Any],
    from_ini: Callable[[Option], Any],
    *,
    rootdir: Path,
    invocation_dir: Path,
    called: Callable[[Option], str] = lambda option: option.option,
) -> Settings:
    """Collect every option: the command line's value, else the ini's, else the default. Raises SettingsError.

    The two look-ups return ``None`` where nothing was given. Relative paths are resolved against the current folder
    for the command line and against rootdir for the ini. ``called``: what an option is named on this command line.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for option in OPTIONS:
        key = option.name.replace("-", "_")
        given = from_command_line(option) if option.flag else None
        twin = from_ini(option) if option.ini else None
        if key == "gate":
            values["gate_cli"], values["gate_ini"] = given, twin
        value, base, where = (
            (given, invocation_dir, called(option)) if given is not None else (twin, rootdir, option.dest)
        )
        if value is None:
            values[key] = option.default
            continue
        values[key] = _typed(option, value, where, base)
        origins[key] = where
    variants = _variants(values, origins)
    settings = Settings(rootdir, values, origins, variants)
    check_values(settings)
    for setup in settings.setups() if variants else ():
        check_names(setup)
    return settings


def _variants(values: dict[str, Any], origins: dict[str, str]) -> tuple[Variant, ...]:
    """What the run compares. One prompt version alone is a setting like any other, and stays a plain text."""
    from pytest_memeval.settings.variants import VariantError, check_variants, parse_variant, prompt_variant

    specs, texts = values["prompt_version"] or [], values["variant"] or []
    ini = "memeval_variant"
    if len(specs) > 1 and texts:
        if origins["variant"] == ini and origins["prompt_version"] != "memeval_prompt_version":
            texts = values["variant"] = []
        else:
            raise SettingsError(
                f"{origins['variant']}: several prompt versions are variants already; name them as"
                " --memeval-variant NAME=prompts:VERSION, or leave one of the two options out"
            )
    key = "variant" if texts else "prompt_version"
    try:
        if texts:
            variants = tuple(parse_variant(text) for text in texts)
        else:
            variants = tuple(map(prompt_variant, specs)) if len(specs) > 1 else ()
        if variants:
            check_variants(variants)
    except VariantError as error:
        raise SettingsError(f"{origins[key]}: {error}") from None
    if variants and not texts:
        values["variant"] = [f"{variant.name}=prompts:{variant.prompts}" for variant in variants]
        origins["variant"] = origins["prompt_version"]
        specs = []
    values["prompt_version"] = specs[0] if specs else None
    values["variant"] = values["variant"] or None
    return variants


def _typed(option: Option, value: Any, where: str, base: Path) -> Any:
    if option.kind in ("int", "float") and isinstance(value, str):
        try:
            value = int(value) if option.kind == "int" else float(value)
        except ValueError:
            word = "a whole number" if option.kind == "int" else "a number"
            from pytest_memeval.documents.problems import shown

            raise SettingsError(f"{where}: {shown(value)} is not {word}") from None
    if option.choices and value not in option.choices:
        from pytest_memeval.documents.problems import did_you_mean

        raise SettingsError(f"{where}: unknown value {value!r}{did_you_mean(str(value), option.choices)}")
    if value == "" and (option.relative or option.name == "resume"):
        raise SettingsError(f"{where}: a path is needed")
    if option.relative:
        return base / value
    return value
