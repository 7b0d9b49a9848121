"""Data and models that lie beside the repository; tests that need them skip, with the reason, where they are absent."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared"


def shared_path(relative: str) -> Path:
    """The path below ../shared, or a skip that names it."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"../shared/{relative} is not beside the repository")
    return path


def shared_module(relative: str) -> ModuleType:
    """A Python module below ../shared, loaded under a name of its own."""
    path = shared_path(relative)
    name = f"shared_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]
