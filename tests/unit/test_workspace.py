"""No path leads out of the workspace, whatever it looks like and whatever happens beside it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fourgates.catalog import ToolError
from fourgates.contract.errors import ConfigurationError
from fourgates.tools.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("outside")
    inside = tmp_path / "inside"
    (inside / "policies").mkdir(parents=True)
    (inside / "policies" / "returns.md").write_text("thirty days – ok")
    return inside


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    opened = Workspace(root)
    yield opened
    opened.close()


@pytest.mark.parametrize("path", ["policies/returns.md", "./policies/returns.md", "policies/../policies/returns.md"])
def test_file_inside_is_read(workspace: Workspace, path: str) -> None:
    assert workspace.read_text(path) == "thirty days – ok"


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../secret.txt", "policies/../../secret.txt", "../../../../etc/passwd", "..", "/", "policies/../..",
     "../inside/policies/returns.md", "\0", "policies/returns.md\0.txt"],
)  # fmt: skip
def test_path_that_leads_out_is_refused(workspace: Workspace, path: str) -> None:
    """E10"""
    with pytest.raises(ToolError, match="outside_workspace"):
        workspace.read(path)


def test_link_that_leads_out_is_refused_and_one_that_stays_is_followed(workspace: Workspace, root: Path) -> None:
    """E10"""
    (root / "out").symlink_to(root.parent / "secret.txt")
    (root / "up").symlink_to("..")
    (root / "stays").symlink_to("policies/returns.md")
    for path in ("out", "up/secret.txt"):
        with pytest.raises(ToolError, match="outside_workspace"):
            workspace.read(path)
    assert workspace.read_text("stays").startswith("thirty")


def test_what_is_no_regular_file_is_refused_without_waiting(workspace: Workspace, root: Path) -> None:
    """E10"""
    os.mkfifo(root / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(root / "socket"))
    (root / "null").symlink_to("/dev/null")
    refused = {"pipe": "not_a_file", "socket": "not_a_file", "policies": "not_a_file", "null": "outside_workspace"}
    try:
        for path, reason in refused.items():
            with pytest.raises(ToolError, match=reason):
                workspace.read(path)
    finally:
        listening.close()


@pytest.mark.parametrize(
    ("path", "reason"),
    [("policies/none.md", "file_not_found"), ("policies/returns.md/x", "file_not_found"), ("", "file_not_found"),
     ("x" * 5000, "file_not_found")],
)  # fmt: skip
def test_missing_file_is_said_in_words_that_a_model_may_read(workspace: Workspace, root: Path, path: str, reason: str) -> None:
    """R7"""
    with pytest.raises(ToolError) as told:
        workspace.read(path)
    assert told.value.reason == reason
    assert str(root) not in told.value.sentence


def test_large_file_and_binary_file_are_refused(workspace: Workspace, root: Path) -> None:
    (root / "large").write_bytes(bytes(101))
    (root / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ToolError, match="file_too_large"):
        workspace.read("large", limit=100)
    with pytest.raises(ToolError, match="not_text"):
        workspace.read_text("binary")


def test_missing_folder_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="existing folder"):
        Workspace(tmp_path / "none")


def test_a_write_is_whole_replaces_links_and_makes_new_files_only_where_asked(workspace: Workspace, root: Path) -> None:
    """E10"""
    outside = root.parent / "secret.txt"
    (root / "link").symlink_to(outside)
    workspace.write("link", b"mine")
    assert outside.read_text() == "outside" and not (root / "link").is_symlink()
    workspace.write("policies/new.md", b"one", new=True)
    with pytest.raises(ToolError, match="file_exists"):
        workspace.write("policies/new.md", b"two", new=True)
    workspace.write("policies/new.md", b"three")
    assert workspace.read("policies/new.md") == b"three"
    assert workspace.names() == ["link", "policies/"]
    assert workspace.names("policies") == ["new.md", "returns.md"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [("../x", "outside_workspace"), ("/x", "outside_workspace"), ("/etc/x", "outside_workspace"), ("x\0", "outside_workspace"),
     ("none/x", "file_not_found"), ("policies", "not_a_file"), ("policies/", "not_a_file"), ("..", "not_a_file"),
     ("", "not_a_file"), ("\ud800", "file_not_found"), ("x" * 300, "file_not_found")],
)  # fmt: skip
def test_what_cannot_be_written_leaves_nothing_behind(workspace: Workspace, root: Path, path: str, reason: str) -> None:
    """E10, R7"""
    before = sorted(root.parent.rglob("*"))
    with pytest.raises(ToolError) as told:
        workspace.write(path, b"x")
    assert (told.value.reason, told.value.not_executed) == (reason, True)
    assert sorted(root.parent.rglob("*")) == before


def test_a_large_folder_and_one_outside_are_not_listed(workspace: Workspace) -> None:
    with pytest.raises(ToolError, match="folder_too_large"):
        workspace.names("policies", limit=0)
    for path, reason in (("..", "outside_workspace"), ("policies/returns.md", "file_not_found")):
        with pytest.raises(ToolError, match=reason):
            workspace.names(path)
