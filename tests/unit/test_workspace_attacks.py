"""The published ways out of a folder, in every spelling, and a process that swaps links all the time: none leads out."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest

from fourgates.catalog import ToolError
from fourgates.tools.workspace import Workspace

LISTS = Path("/usr/share/wfuzz/wordlist")
NAMES = ("vulns/dirTraversal.txt", "vulns/dirTraversal-nix.txt", "vulns/dirTraversal-win.txt", "Injections/Traversal.txt")
TARGETS = ("etc/passwd", "etc/hosts", "etc/shadow", "boot.ini", "winnt/win.ini", "windows/win.ini", "autoexec.bat", "secret")
INSIDE, OUTSIDE = b"inside", b"OUTSIDE"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace ten folders deep; what attackers look for lies beside each of them."""
    here = tmp_path
    for number in range(10):
        for name in TARGETS:
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).write_bytes(OUTSIDE)
        here = here / f"d{number}"
    for name in TARGETS:
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_bytes(INSIDE)
    return here


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    opened = Workspace(root)
    yield opened
    opened.close()


def published() -> list[bytes]:
    """The texts of Debian's `wfuzz`, read where the package has put them."""
    if not LISTS.exists():
        if os.environ.get("CI") == "true":
            pytest.fail("the traversal texts of wfuzz are missing: run `make system`")
        pytest.skip("the traversal texts of wfuzz are missing: run `make system`")
    lines = {line.strip() for name in NAMES for line in (LISTS / name).read_bytes().splitlines()}
    return sorted(lines - {b""})


def overlong(text: bytes) -> bytes:
    """What a decoder that accepts too long UTF-8 makes of it: C0 AE is a dot, C0 AF and E0 80 AF a slash, C1 9C a backslash."""
    text = re.sub(rb"[\xc0\xc1]([\x80-\xbf])", lambda m: bytes([(m[0][0] & 1) << 6 | m[1][0] & 0x3F]), text)
    return re.sub(rb"\xe0\x80([\x80-\xbf])", lambda m: bytes([m[1][0] & 0x3F]), text)


def wide(text: bytes) -> bytes:
    return re.sub(rb"%u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)).encode(errors="replace"), text)


DECODINGS: tuple[Callable[[bytes], bytes], ...] = (
    lambda text: text, unquote_to_bytes, lambda text: unquote_to_bytes(unquote_to_bytes(text)),
    lambda text: unquote_to_bytes(unquote_to_bytes(unquote_to_bytes(text))), lambda text: overlong(unquote_to_bytes(text)),
    lambda text: overlong(unquote_to_bytes(unquote_to_bytes(text))), wide,
)  # fmt: skip


def spellings(text: bytes) -> Iterator[str]:
    """The text as any server, proxy or file system might come to read it."""
    for decoded in {decode(text) for decode in DECODINGS}:
        for slashed in {decoded, decoded.replace(b"\\", b"/")}:
            for cut in {slashed, slashed.split(b"\0")[0], slashed.lstrip(b"/"), slashed.replace(b"FILE", b"secret")}:
                for named in {cut, cut + b"etc/passwd", cut + b"secret"}:
                    yield named.decode(errors="surrogateescape")


def naive(root: Path, path: str) -> bytes | None:
    """What careless code would read: the sentinel by which it is seen that these texts are attacks at all."""
    try:
        return (root / path.lstrip("/")).read_bytes()
    except (OSError, ValueError):
        return None


def test_no_published_traversal_leads_out_in_any_spelling(workspace: Workspace, root: Path) -> None:
    """E10"""
    texts = published()
    assert len(texts) > 1_500
    tried = {path for text in texts for path in spellings(text)}
    seen: Counter[str] = Counter()
    for path in tried:
        seen["would have escaped"] += naive(root, path) == OUTSIDE
        try:
            data = workspace.read(path)
        except ToolError as told:
            seen[told.reason] += 1
        else:
            assert data == INSIDE, path
            seen["inside"] += 1
    print(len(texts), "texts,", len(tried), "spellings,", dict(seen))
    assert seen["would have escaped"] > 100
    assert seen["outside_workspace"] > 1_000
    assert not set(seen) - {"would have escaped", "inside", "outside_workspace", "file_not_found", "not_a_file"}


def test_no_published_traversal_writes_outside(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    """E10"""
    kept = {name: Path(tmp_path / name).read_bytes() for name in TARGETS}
    before = {path for path in tmp_path.rglob("*") if root not in path.parents}
    written = 0
    for path in {path for text in published()[::25] for path in spellings(text)}:
        try:
            workspace.write(path, INSIDE)
            written += 1
        except ToolError:
            continue
    assert written > 0
    assert {path for path in tmp_path.rglob("*") if root not in path.parents} == before
    assert {name: Path(tmp_path / name).read_bytes() for name in TARGETS} == kept


SECONDS = 1.5


def met(seen: Counter[str]) -> bool:
    """Both sides of the race were met."""
    return seen["read"] > 50 and seen["outside_workspace"] > 50 and seen["written"] > 2


def test_a_process_that_swaps_links_finds_no_way_out(workspace: Workspace, root: Path) -> None:
    """E10: folders and links of the same names change places all the time, under reads and writes."""
    outside = root.parent
    (root / "real").mkdir()
    (root / "real" / "secret").write_bytes(INSIDE)
    if (pid := os.fork()) == 0:
        try:
            _swap_until_killed(root, outside)
        finally:
            os._exit(0)
    seen: Counter[str] = Counter()
    try:
        began = time.monotonic()
        while time.monotonic() < began + SECONDS or (not met(seen) and time.monotonic() < began + 10 * SECONDS):
            for path in ("place/secret", "place/../secret", "deep/place/secret", "file"):
                try:
                    data = workspace.read(path)
                    assert data == INSIDE, path
                    seen["read"] += 1
                except ToolError as told:
                    seen[told.reason] += 1
            try:
                workspace.write("place/planted", b"x")
                seen["written"] += 1
            except ToolError as told:
                seen[told.reason] += 1
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    print(dict(seen))
    assert met(seen)
    assert not (outside / "planted").exists()
    assert (outside / "secret").read_bytes() == OUTSIDE


def _swap_until_killed(root: Path, outside: Path) -> None:
    number = 0
    (root / "deep").mkdir()
    while True:
        number += 1
        outwards = ("real", str(outside), "..", "/")[number % 4]
        for place, target in ((root / "place", outwards), (root / "deep" / "place", outwards.replace("real", "../real")),
                              (root / "file", f"{outwards}/secret")):  # fmt: skip
            other = root / f"next-{number % 3}"
            other.unlink(missing_ok=True)
            other.symlink_to(target)
            other.rename(place)


def test_a_device_is_not_even_opened(workspace: Workspace, root: Path) -> None:
    """E10: a terminal that is opened hangs up or takes over; it is looked at first."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a device")
    for name, numbers in (("zero", (1, 5)), ("null", (1, 3)), ("tty", (5, 0))):
        os.mknod(root / name, 0o666 | 0o020000, os.makedev(*numbers))
        with pytest.raises(ToolError, match="not_a_file"):
            workspace.read(name)
    workspace.write("zero", b"now a file")
    assert workspace.read("zero") == b"now a file"
