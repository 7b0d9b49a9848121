"""Finding the catalog that an operator names as `module:attr`."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from fourgates.contract.errors import ConfigurationError

from .catalog import Catalog

_HOW = "name it as MODULE:ATTRIBUTE, such as shop.tools:catalog"
_KIND = "a fourgates.catalog.Catalog or a function without arguments that returns one"


def load_catalog(where: str) -> Catalog:
    """The catalog at `module:attr`, a Catalog or a function without arguments that makes one; the current folder is importable.

    Raises ConfigurationError, saying what to do.
    """
    module_name, colon, attribute = where.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigurationError(f"catalog {where!r} is not of the form module:attr; {_HOW}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # a console script does not have it, and people keep their tools where they work
    try:
        found: object = importlib.import_module(module_name)
    except ConfigurationError as fault:
        raise ConfigurationError(f"catalog {where!r}: {fault}") from fault
    except ModuleNotFoundError as fault:
        raise ConfigurationError(_not_found(where, module_name, fault)) from fault
    except Exception as fault:  # a user's module may raise anything while it is imported
        raise ConfigurationError(f"catalog {where!r}: importing it failed with {_last_words(fault)}; mend the module") from fault
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"catalog {where!r}: module {module_name!r} has no {attribute!r}; {_HOW}")
        found = getattr(found, part)
    if inspect.isroutine(found):
        found = _made(where, found)
    if not isinstance(found, Catalog):
        raise ConfigurationError(f"catalog {where!r} is a {type(found).__name__}; name {_KIND}")
    if not len(found) and not found.offers:
        raise ConfigurationError(f"catalog {where!r} has no tools; register at least one with @{attribute}.tool(...)")
    return found


def _made(where: str, make: Callable[[], object]) -> object:
    try:
        return make()
    except ConfigurationError as fault:
        raise ConfigurationError(f"catalog {where!r}: {fault}") from fault
    except Exception as fault:  # a user's function may raise anything
        raise ConfigurationError(f"catalog {where!r}: making it failed with {_last_words(fault)}; mend the function") from fault


def _not_found(where: str, module_name: str, fault: ModuleNotFoundError) -> str:
    missing = fault.name or module_name
    if module_name == missing or module_name.startswith(missing + "."):
        return f"catalog {where!r}: there is no module {missing!r} here or on the path; start in its folder or install it"
    return f"catalog {where!r}: it imports {missing!r}, which is not installed; install it"


def _last_words(fault: Exception) -> str:
    frame = traceback.extract_tb(fault.__traceback__)[-1]
    return f"{type(fault).__name__}: {fault} ({Path(frame.filename).name}, line {frame.lineno})"
