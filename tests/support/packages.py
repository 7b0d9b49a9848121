"""Data that others publish as packages, fetched once into build/packages by the ordinary client and never installed beside us."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "build" / "packages"
_PATIENCE = 120.0
"""Seconds; a registry that takes longer counts as absent."""


class NotFetched(Exception):
    """The package is not here and could not be had; the message says why."""


def source_of(name: str, version: str) -> Path:
    """The unpacked source distribution of a package."""
    folder = FOLDER / f"{name}-{version}"
    if not folder.exists():
        with tempfile.TemporaryDirectory() as kept:
            _pip("download", "--no-binary", ":all:", "--no-deps", "--dest", kept, f"{name}=={version}")
            with tarfile.open(next(Path(kept).glob("*.tar.gz"))) as archive:
                archive.extractall(FOLDER, filter="data")
    return folder


def installed(name: str, version: str) -> Path:
    """A folder with a package in it, without what it depends on."""
    folder = FOLDER / f"{name}-{version}-installed"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=_made(FOLDER)) as kept:
            _pip("install", "--no-deps", "--no-compile", "--target", f"{kept}/here", f"{name}=={version}")
            Path(kept, "here").rename(folder)
    return folder


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise NotFetched(f"{words[-1]} was not fetched within {_PATIENCE:.0f} s") from None
    if done.returncode:
        raise NotFetched(f"{words[-1]} could not be fetched: {(done.stderr.strip().splitlines() or ['pip said nothing'])[-1]}")
