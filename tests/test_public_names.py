"""What ``import pytest_memeval`` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pytest_memeval


def test_every_public_name_can_be_had() -> None:
    for name in pytest_memeval.__all__:
        assert getattr(pytest_memeval, name) is not None, name
    assert set(pytest_memeval.__all__) == set(dir(pytest_memeval))
    assert callable(pytest_memeval.compute_l1)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'compute_l9'"):
        _ = pytest_memeval.compute_l9  # type: ignore[attr-defined]


def test_the_import_alone_brings_nothing_along() -> None:
    code = "import sys, pytest_memeval; print(sorted(m for m in sys.modules if m.startswith('pytest_memeval')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == "['pytest_memeval']"
