"""A result of any size goes by in constant memory, and is redacted as if it had been read whole."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourgates.catalog import Committed, Streamed, ToolError
from fourgates.contract.events import LedgerKind
from fourgates.contract.parts import Call, Principal, ResultBox, Risk
from fourgates.executor import streams
from fourgates.executor.results import ResultBoxes
from fourgates.executor.streams import BROKE_OFF, SealedStream, is_streamed, received
from fourgates.gates import redaction_stream
from fourgates.gates.redaction import Redactor
from fourgates.gates.redaction_stream import Endless, StreamRedactor
from fourgates.gates.result_box import UnreadableResult
from fourgates.gates.result_stream import FRAME_BYTES, FrameOpener, FrameSealer, box_stream, stream_opener
from fourgates.runtime.blobs import MemoryBlobStore
from fourgates.sanitizer.stage import NOT_SHOWN
from support.sanitizing import RUN, Sanitizing
from support.sealing import keyring

K = LedgerKind
REDACTOR = Redactor(b"k", "c", ("card",))
TOKEN = "ghp_" + "Zq7x" * 9
SECRETS = (
    f"token {TOKEN}", "password: swordfish", "- name: DB_PASSWORD\n  value: swordfish", "card 4111 1111 1111 1111",
    "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQ4fA7bQ9c\n" * 30 + "-----END PRIVATE KEY-----", f"see {TOKEN[:11]}\n  {TOKEN[11:]}",
    "Zm9vIHBhc3N3b3JkPXN3b3JkZmlzaCBiYXI=", "Authorization: Token 4fA7bQ9cZ2dK8eM3",
)  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows so small that a page of text needs many."""
    monkeypatch.setattr(redaction_stream, "BLOCK", 1_500)
    monkeypatch.setattr(redaction_stream, "HOLD", 1_000)


def _in_pieces(text: str, sizes: list[int]) -> tuple[str, int]:
    stream, out, at, turn = StreamRedactor(REDACTOR), [], 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        out.append(stream.feed(text[at : at + size]))
        at, turn = at + size, turn + 1
    out.append(stream.finish())
    return "".join(out), stream.count


@pytest.mark.usefixtures("small")
def test_a_secret_at_any_place_of_a_stream_never_comes_out() -> None:
    """R3: wherever the windows end."""
    for shift in range(0, 1_600, 53):
        for secret in SECRETS:
            text = "x" * shift + "\n" + "a plain line of words\n" * 60 + f"{secret}\n" + "another plain line\n" * 120
            shown, count = _in_pieces(text, [700])
            assert count >= 1
            assert not any(word in shown for word in ("swordfish", "Zq7x", "4111", "MIIEv", "3N3b3JkZmlz", "4fA7")), (
                shift,
                secret,
            )


@pytest.mark.usefixtures("small")
@given(st.lists(st.sampled_from((*SECRETS, "plain words", "", "a\x1b[31mb", "x" * 90, "é日🇩🇪", "k: v")), max_size=120),
       st.lists(st.integers(1, 3_000), min_size=1, max_size=4))  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_a_stream_is_redacted_as_its_whole_text(lines: list[str], sizes: list[int]) -> None:
    """R3: and the same however it was cut into pieces."""
    text = "\n".join(lines)
    assert _in_pieces(text, sizes) == (REDACTOR.redact(text).text, REDACTOR.redact(text).count)


@pytest.mark.usefixtures("small")
def test_one_line_of_any_length_is_redacted_too() -> None:
    """R3: JSON without line breaks, as programs write it."""
    for shift in range(0, 1_600, 97):
        members = [f'"k{n}":"plain words"' for n in range(400)]
        members.insert(150, f'"password":"{"swordfish" * 3}","note":"{TOKEN}"')
        text = "x" * shift + "{" + ",".join(members) + "}"
        shown, count = _in_pieces(text, [700])
        assert "swordfish" not in shown and "Zq7x" not in shown and count == 2
        assert shown.startswith("x" * shift + '{"k0":"plain words",') and shown.endswith('"k399":"plain words"}')


@pytest.mark.usefixtures("small")
def test_a_secret_in_a_long_line_split_by_terminal_sequences_is_redacted() -> None:
    """R3: a link's address is as long as its writer likes."""
    for shift in range(0, 3_200, 41):
        link = "\x1b]8;;" + "a b, " * 100 + "\x07"
        text = "w " * (shift // 2) + TOKEN[:15] + link + TOKEN[15:] + " w" * 3_000
        shown, _ = _in_pieces(text, [900])
        assert "Zq7x" not in shown, shift


def test_a_word_without_end_is_not_shown() -> None:
    """R3"""
    stream = StreamRedactor(REDACTOR)
    with pytest.raises(Endless):
        for _ in range(100):
            stream.feed("x" * 100_000)


@given(st.binary(max_size=300), st.integers(1, 5))
def test_frames_open_in_their_order_only(data: bytes, frames: int) -> None:
    """R3, P6"""
    sealer = FrameSealer()
    sealed = [sealer.seal(data) for _ in range(frames)] + [sealer.seal(data, last=True)]
    opener = FrameOpener(sealer.key)
    assert [opener.open(frame, last=number == frames) for number, frame in enumerate(sealed)] == [data] * (frames + 1)
    for wrong in (sealed[1:], [*sealed[:-1], sealed[-1][:-1] + bytes([sealed[-1][-1] ^ 1])], sealed[:-1]):
        with pytest.raises(UnreadableResult):
            again = FrameOpener(sealer.key)
            for number, frame in enumerate(wrong):
                again.open(frame, last=number == len(wrong) - 1)


def test_a_streams_key_is_bound_to_its_call_and_its_blob() -> None:
    """P6, R3"""
    key_id, key = keyring().result_key()
    box = box_stream(b"s" * 32, 5, "f" * 64, key_id, key, "call")
    assert stream_opener(box, {key_id: key}, "call")
    for other, keys, call_id in (
        (dataclasses.replace(box, blob_ref="e" * 64), {key_id: key}, "call"), (box, {key_id: key}, "other"),
        (box, {}, "call"), (box, {key_id: b"x" * 32}, "call"),
    ):  # fmt: skip
        with pytest.raises(UnreadableResult):
            stream_opener(other, keys, call_id)


async def _asynchronous(pieces: list[str | bytes]) -> AsyncIterator[str | bytes]:
    for piece in pieces:
        yield piece


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_what_a_tool_streams_is_taken_whole(asynchronous: bool) -> None:
    """R1"""
    pieces: list[str | bytes] = ["ä" * 50_000, b"x" * (3 * FRAME_BYTES), "", "end"]
    answer = Streamed(_asynchronous(pieces) if asynchronous else pieces)
    assert is_streamed(answer) and is_streamed(Committed(answer)) and not is_streamed(Committed("text"))
    taken = await received(answer)
    assert isinstance(taken, SealedStream) and taken.size == 100_000 + 3 * FRAME_BYTES + 3
    frames = [frame async for frame in taken.read()]
    opener = FrameOpener(taken.key)
    plain = b"".join(opener.open(frame, last=number == len(frames) - 1) for number, frame in enumerate(frames))
    assert plain == "ä".encode() * 50_000 + b"x" * (3 * FRAME_BYTES) + b"end"


async def test_a_stream_that_breaks_fails_a_read_and_leaves_a_write_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """R7, E3: what has committed stays so, whatever becomes of its words."""

    def breaking() -> Iterator[str]:
        yield "some"
        raise OSError("the other side hung up")

    with pytest.raises(OSError, match="hung up"):
        await received(Streamed(breaking()))
    assert await received(Committed(Streamed(breaking()), {"paid": 1})) == Committed(BROKE_OFF, {"paid": 1})
    monkeypatch.setattr(streams, "MOST_BYTES", 1_000)
    with pytest.raises(ToolError, match="result_too_large"):
        await received(Streamed("x" * 600 for _ in range(2)))


def _call(call_id: str) -> Call:
    who = Principal(issuer="i", subject="anna", tenant="acme", person="anna")
    return Call(
        call_id=call_id, run_id=RUN, tool_call_id="t-1", principal=who, tool="look", tool_version="", risk=Risk.READ,
        arguments="{}", args_digest="d", effect_key="", origins=(), intent="", allowed_actions=None, deadline_ms=0,
        requested_ms=0,
    )  # fmt: skip


async def _streamed_box(raw: MemoryBlobStore, text: str, call_id: str = "c") -> ResultBox:
    boxes = ResultBoxes(*keyring().result_key(), raw, 262_144)
    box = await boxes.box(_call(call_id), await received(Streamed([text])))
    assert box is not None
    return box


async def _answered(text: str, **settings: Any) -> tuple[Sanitizing, ResultBox]:
    world = Sanitizing()
    await world.start(**settings)
    box = await _streamed_box(world.raw, text)
    await world.say(K.FINISHED, "c", "look", outcome="committed", result=box)
    await world.crash()
    return world, box


async def test_a_streamed_result_is_answered_stored_and_its_raw_form_removed() -> None:
    """R1, R2, R3"""
    text = "".join(f"line {n} {TOKEN if n % 50 == 0 else ''}\n" for n in range(60_000))
    world, box = await _answered(text, whole_bytes=1_000)
    told = world.last_json()
    (whole,) = world.results.contents()
    assert whole.decode() == Redactor(keyring().placeholder_key(), "c").redact(text).text
    assert told["truncated"] and len(told["content"].encode()) <= 400 and told["content"].count("\n") < 20
    assert told["content"].startswith("line 0 [redacted:") and told["content"].rstrip().endswith("line 59999")
    assert told["content_ref"]["size"] == len(whole) == world.completed()[0].output_bytes
    assert world.completed()[0].redactions == 1_200 and len(world.raw) == 0
    assert f"of {len(whole)} bytes are missing here" in told["content"]
    assert box.ciphertext and box.blob_ref


async def test_a_small_stream_of_json_is_read_as_json() -> None:
    """R3, R4: also an escape hides no name."""
    world, _ = await _answered('{"pass\\u0077ord": "swordfish", "n": 1}')
    assert "swordfish" not in world.last_json()["content"] and '"n": 1' in world.last_json()["content"]


async def test_a_stream_that_is_not_fit_to_be_shown_says_so() -> None:
    """R3, E3"""
    world, _ = await _answered("x" * 10_000_000)
    assert (world.completed()[-1].code, world.last().reason) == ("ok", "result_not_shown")
    assert world.last().message == NOT_SHOWN and world.last().content is None and len(world.raw) == 0
    assert not world.results.contents()


_MEASURED = """
    import asyncio, sys, tempfile
    from pathlib import Path
    from fourgates.catalog import Catalog, OutputLimit, Streamed
    from fourgates.contract.parts import CallRef
    from fourgates.executor.results import ResultBoxes
    from fourgates.executor.streams import received
    from fourgates.runtime.blobs import LocalBlobStore
    from fourgates.sanitizer.contents import Contents
    from fourgates.sanitizer.raw_results import RawResults
    from fourgates.sanitizer.settings import SanitizerSettings
    from unit.test_result_stream import _call

    async def go(megabytes, folder):
        raw, results = LocalBlobStore(folder / "raw"), LocalBlobStore(folder / "results")
        line = "a line of a hundred characters, as a log has them, with words and numbers: 12345 67890 and an end\\n"
        stream = Streamed(line * 100 for _ in range(megabytes * 10_000 // len(line) + 1))
        box = await ResultBoxes("k", b"k" * 32, raw, 1).box(_call("c"), await received(stream))
        contents = Contents(Catalog("x"), results, b"p", SanitizerSettings())
        about = CallRef(
            tenant="acme", run_id="r", tool_call_id="t", subject="anna", agent="", tool="x", risk="read", args_digest=""
        )
        pieces = await RawResults({"k": b"k" * 32}, raw).stream(box, "acme", "c")
        shown = await contents.of_stream(pieces, box.size, "c", about)
        assert shown.truncated and shown.ref.size == box.size > megabytes * 999_000, (shown.ref, box.size)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(go(int(sys.argv[1]), Path(folder)))
    # Its own peak: getrusage would begin with what the process that started it had in memory.
    peak = next(row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith("VmHWM"))
    print(int(peak.split()[1]) // 1024)
"""


def _peak(megabytes: int) -> int:
    """Peak resident megabytes of a process that takes, boxes, redacts and stores a result of that size."""
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(_MEASURED), str(megabytes)], capture_output=True, text=True,
                         check=False, env={"PYTHONPATH": ":".join(path for path in sys.path if path)})  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


@pytest.mark.timeout(300)
def test_a_large_result_takes_no_more_memory_than_a_small_one() -> None:
    """R1: one whole copy of the larger one would show."""
    small, large = _peak(4), _peak(40)
    assert large < small + 24 and large < 250, (small, large)
