"""Which notices arrived, so that a restart does not tell everything once more."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path


class Journal:
    """A file of one line a notice. Where it is lost, what is open is told again: people hear twice rather than not at all."""

    def __init__(self, path: Path) -> None:
        """Reads what is there. Raises OSError where the folder cannot be used."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._told = set(path.read_text(encoding="utf-8").split()) if path.exists() else set()
        self._file = path.open("a", encoding="utf-8")

    def told(self, mark: str) -> bool:
        return mark in self._told

    def note(self, mark: str) -> None:
        """This arrived. A word without spaces."""
        self._told.add(mark)
        self._file.write(f"{mark}\n")
        self._file.flush()

    def keep(self, marks: Collection[str]) -> None:
        """Forgets all others: their holds have ended."""
        self._told &= set(marks)
        fresh = self._path.with_suffix(".new")
        fresh.write_text("".join(f"{mark}\n" for mark in sorted(self._told)), encoding="utf-8")
        self._file.close()
        fresh.replace(self._path)
        self._file = self._path.open("a", encoding="utf-8")

    def close(self) -> None:
        self._file.close()
