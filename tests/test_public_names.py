"""What ``import pytest_memeval`` offers."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import pytest_memeval
from pytest_memeval import qa, rag


@pytest.mark.parametrize("package", [pytest_memeval, qa, rag], ids=lambda package: package.__name__)
def test_every_public_name_can_be_had(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None, name
    assert len(package.__all__) == len(set(package.__all__))
    assert set(package.__all__) == set(dir(package))
    homes = " ".join(package._HOMES.values()).split()
    assert sorted(homes) == sorted(name for name in package.__all__ if name != "__version__")


def test_a_public_name_is_what_its_module_defines() -> None:
    assert callable(pytest_memeval.compute_l1)
    assert pytest_memeval.compute_l1.__module__ == "pytest_memeval.metrics.l1"


def test_an_unknown_name_is_an_attribute_error() -> None:
    missing = "compute_l9"
    with pytest.raises(AttributeError, match="no attribute 'compute_l9'"):
        _ = getattr(pytest_memeval, missing)


def test_the_import_alone_brings_nothing_along_but_the_look_up_of_names() -> None:
    code = "import sys, pytest_memeval; print(sorted(m for m in sys.modules if m.startswith('pytest_memeval')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == "['pytest_memeval', 'pytest_memeval.lazy_names']"
