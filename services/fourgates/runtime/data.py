"""Where the files beside the code lie: in the repository, or in the wheel's `_data`."""

from __future__ import annotations

from pathlib import Path

from fourgates.contract.errors import ConfigurationError

_PACKAGE = Path(__file__).resolve().parents[1]
_WHEEL = _PACKAGE / "_data"
_REPOSITORY = _PACKAGE.parents[1]


def data_folder(name: str) -> Path:
    """The folder `schemas`, `deploy/kafka` or `deploy/clickhouse`. ConfigurationError where this installation lacks it."""
    for root in (_WHEEL, _REPOSITORY):
        if (folder := root / name).is_dir():
            return folder
    raise ConfigurationError(f"the folder {name!r} is missing from this installation of fourgates; install the package again")
