"""String formats of our own, one place for schema and typed model: `workspace-path`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

WORKSPACE_PATH = "workspace-path"
LONGEST_PATH = 4096
"""PATH_MAX of Linux."""


def is_workspace_path(text: str) -> bool:
    """A relative path that no reading of it can lead out of the workspace by name alone; links are the Workspace's to check.

    Refused: empty, too long, absolute, a `..` segment, a backslash (a separator elsewhere), control characters, NUL among them.
    """
    if not text or len(text) > LONGEST_PATH or text.startswith("/") or "\\" in text:
        return False
    if any(char < " " or char == "\x7f" for char in text):
        return False
    return ".." not in text.split("/")


def _checked(text: str) -> str:
    if not is_workspace_path(text):
        raise PydanticCustomError("outside_workspace", "not a relative path inside the workspace")
    return text


WorkspacePath = Annotated[
    str,
    StringConstraints(min_length=1, max_length=LONGEST_PATH),
    AfterValidator(_checked),
    Field(json_schema_extra={"format": WORKSPACE_PATH}),
]
"""The type of a path argument in a pydantic model: the same check in the schema and in the model."""

FORMATS: Mapping[str, Callable[[str], bool]] = {WORKSPACE_PATH: is_workspace_path}
