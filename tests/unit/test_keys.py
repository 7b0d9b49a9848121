"""Key material: made once, for its owner only, never shown; retired keys verify and seal nothing."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.key_rotation import rotated
from fourgates.runtime.keys import WRITERS, DevKeys, Keyring, new_development_content, require_development

ALL_WRITERS = (*WRITERS, "approver")


def write(path: Path, content: Any, mode: int = 0o600) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(mode)
    return path


def secrets_of(content: Any) -> list[str]:
    """Every text of a key file that must never be shown."""
    if isinstance(content, dict):
        return [
            s for key, value in content.items() if key not in {"kid", "kty", "crv", "use", "format"} for s in secrets_of(value)
        ]
    return [s for item in content for s in secrets_of(item)] if isinstance(content, list) else [str(content)]


@pytest.mark.parametrize("writer", ALL_WRITERS)
def test_every_writer_has_a_key_that_the_verifier_knows(writer: str) -> None:
    """P6"""
    keyring = Keyring(new_development_content())
    signer, verifier = keyring.signer(writer), keyring.verifier()
    mac = signer.sign(b"data")
    assert signer.key_id == f"{writer}:1"
    assert len(mac) == signer.mac_bytes == (64 if writer == "approver" else 32)
    assert verifier.verify(signer.key_id, b"data", mac)
    assert not verifier.verify(signer.key_id, b"other", mac)
    assert not verifier.verify(signer.key_id, b"data", b"")
    assert not verifier.verify(signer.key_id, b"data", mac[:-1])
    assert not verifier.verify(f"{writer}:2", b"data", mac)


def test_no_two_writers_share_a_key() -> None:
    """P6"""
    keyring = Keyring(new_development_content())
    assert len({keyring.signer(writer).sign(b"data") for writer in ALL_WRITERS}) == len(ALL_WRITERS)


def test_retired_key_verifies_and_seals_nothing_more() -> None:
    """P6: what it sealed counts as long as the log is kept."""
    content = new_development_content()
    mac = Keyring(content).signer("executor").sign(b"data")
    content["seals"]["executor:1"]["retired"] = True
    content["seals"]["executor:2"] = {"secret": "ab" * 32}
    rotated = Keyring(content)
    assert rotated.signer("executor").key_id == "executor:2"
    assert rotated.verifier().verify("executor:1", b"data", mac)


@pytest.mark.parametrize("writer", ["executor", "approver"])
def test_what_a_retired_key_seals_after_its_end_does_not_count(writer: str) -> None:
    """P6: by then it may be in anybody's hands."""
    first = new_development_content()
    mac = Keyring(first).signer(writer).sign(b"data")
    second = rotated(first, writer, 1_000)
    verifier = Keyring(second).verifier()
    assert Keyring(second).signer(writer).key_id == f"{writer}:2"
    assert [verifier.verify(f"{writer}:1", b"data", mac, at) for at in (0, 999, 1_000, 2_000)] == [True, True, False, False]
    assert verifier.verify(f"{writer}:1", b"data", mac)
    third = rotated(second, writer, 5_000)["seals"]
    assert [third[f"{writer}:{number}"].get("retired_ms") for number in (1, 2, 3)] == [1_000, 5_000, None]


def test_hosts_part_knows_when_a_key_ended() -> None:
    """P6"""
    part = Keyring(rotated(new_development_content(), "sanitizer", 1_000)).host_part()
    assert part["seals"]["sanitizer:1"]["retired_ms"] == 1_000
    assert "retired_ms" not in part["seals"]["sanitizer:2"]


@pytest.mark.parametrize("odd", ["1000", -1, True, 1.5])
def test_an_end_that_is_no_time_is_refused(odd: object) -> None:
    """P6"""
    content = new_development_content()
    content["seals"]["executor:1"]["retired_ms"] = odd
    with pytest.raises(ConfigurationError, match="retired_ms"):
        Keyring(content)


def test_a_writer_without_a_key_cannot_be_rotated() -> None:
    """P6"""
    with pytest.raises(ConfigurationError, match="no key"):
        rotated({"seals": {}}, "executor", 1)


def test_macs_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: a comparison that ends at the first wrong byte lets a seal be found byte by byte."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("fourgates.contract.seals.hmac.compare_digest", compare)
    keyring = Keyring(new_development_content())
    for writer in WRITERS:
        signer = keyring.signer(writer)
        assert not keyring.verifier().verify(signer.key_id, b"data", b"?" * 32)
        assert compared.pop() == (signer.sign(b"data"), b"?" * 32)


def test_newest_key_is_the_highest_number() -> None:
    """P6"""
    content = new_development_content()
    content["seals"] |= {"executor:10": {"secret": "cd" * 32}, "executor:9": {"secret": "ef" * 32}}
    assert Keyring(content).signer("executor").key_id == "executor:10"


def test_development_keys_are_made_once_for_their_owner(tmp_path: Path) -> None:
    """P1"""
    one, two = DevKeys.load(tmp_path / "keys"), DevKeys.load(tmp_path / "keys")
    assert one.door_token() == two.door_token()
    assert one.signer("waiter").sign(b"x") == two.signer("waiter").sign(b"x")
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["keys.json"]
    assert stat.S_IMODE((tmp_path / "keys" / "keys.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


def test_processes_that_start_at_once_get_the_same_keys(tmp_path: Path) -> None:
    """P1"""
    script = """if True:
        import sys, pathlib
        from fourgates.runtime.keys import DevKeys
        print("ready", flush=True)
        sys.stdin.readline()
        print(DevKeys.load(pathlib.Path(sys.argv[1])).door_token())
    """
    command = [sys.executable, "-c", script, str(tmp_path / "keys")]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in started:  # all have imported what they need before any of them looks for the keys
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert len({process.communicate(timeout=30)[0] for process in started}) == 1
    assert [process.returncode for process in started] == [0] * 4
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["keys.json"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_key_file_that_others_can_read_refuses_to_start(tmp_path: Path, mode: int) -> None:
    """P1"""
    path = write(tmp_path / "keys.json", new_development_content(), mode)
    with pytest.raises(ConfigurationError, match="0600"):
        Keyring.from_file(path)


def test_explicit_key_file_is_loaded(tmp_path: Path) -> None:
    """P1"""
    content = new_development_content()
    keyring = Keyring.from_file(write(tmp_path / "prod.json", content))
    assert keyring.result_keys() == {"result:1": bytes.fromhex(content["results"]["result:1"])}
    assert keyring.result_key()[0] == "result:1"
    assert len(keyring.placeholder_key()) == 32
    assert keyring.validator_public().keys() & {"d"} == set()


@pytest.mark.parametrize("damage", ["seals", "grants", "results", "placeholder", "issuer", "door_token", "short", "approver"])
def test_damaged_key_file_is_refused_without_showing_a_key(tmp_path: Path, damage: str) -> None:
    """P1"""
    content = new_development_content()
    shown = secrets_of(content)
    if damage == "short":
        content["results"]["result:1"] = content["results"]["result:1"][:-2]
    elif damage == "approver":
        content["seals"]["approver:1"] = {"secret": "ab" * 32}
    elif damage in {"seals", "results"}:
        first = next(iter(content[damage]))
        content[damage][first] = {"secret": content[damage][first]["secret"][:-3]} if damage == "seals" else "zz" + shown[0]
    elif damage == "grants":
        content["grants"][0]["x"] = "!" + content["grants"][0]["x"]
    else:
        content[damage] = {"placeholder": "xyz" + shown[0], "issuer": shown[0], "door_token": [shown[0]]}[damage]
    with pytest.raises(ConfigurationError) as caught:
        Keyring.from_file(write(tmp_path / "keys.json", content))
    assert caught.value.__cause__ is None
    assert not [s for s in shown if s in str(caught.value)]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": "other"}', '{"format": "fourgates-keys/1", "seals": 1}', "\udcff"])
def test_file_that_is_no_key_file_is_refused(tmp_path: Path, text: str) -> None:
    """P1"""
    path = tmp_path / "keys.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match=r"keys\.json"):
        Keyring.from_file(path)


def test_missing_key_file_is_refused(tmp_path: Path) -> None:
    """P1"""
    with pytest.raises(ConfigurationError, match="FileNotFoundError"):
        Keyring.from_file(tmp_path / "none.json")


def test_key_that_a_process_was_not_given_is_named_when_it_is_needed() -> None:
    """P6"""
    partial = Keyring({"format": "fourgates-keys/1", "seals": {}}, "key file x")
    for ask in (
        lambda: partial.signer("executor"), partial.result_key, partial.placeholder_key, partial.door_token,
        partial.validator_private, partial.validator_public, lambda: partial.issuer,
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match="key file x: no "):
            ask()


def test_keyring_shows_only_the_names_of_its_keys() -> None:
    """P1"""
    content = new_development_content()
    keyring = Keyring(content)
    shown = repr(keyring) + str(keyring) + repr(keyring.signer("executor")) + repr(keyring.issuer) + repr(keyring._seals)
    assert "executor:1" in shown
    assert not [s for s in secrets_of(content) if s in shown]


def test_hosts_part_seals_nothing_and_opens_no_grant() -> None:
    """P6"""
    whole = Keyring(new_development_content())
    host = Keyring(whole.host_part())
    assert host.validator_public() == whole.validator_public()
    signer = whole.signer("sanitizer")
    assert host.verifier().verify(signer.key_id, b"data", signer.sign(b"data"))
    for writer in ALL_WRITERS:
        with pytest.raises(ConfigurationError):
            host.signer(writer)
    with pytest.raises(ConfigurationError):
        host.validator_private()


@pytest.mark.parametrize(
    "address", ["localhost:9092", "127.0.0.1", "127.1.2.3:1", "[::1]:9092", "http://127.0.0.1:8081/x", "::1"]
)
def test_development_keys_are_accepted_on_loopback(address: str) -> None:
    """P1"""
    require_development("development", ["127.0.0.1:9092", address])


@pytest.mark.parametrize(
    "address", ["kafka:9092", "0.0.0.0:80", "10.0.0.1:9092", "http://localhost.example", "localhost@evil.example", "", "[::]:1"]
)
def test_development_keys_meet_no_network(address: str) -> None:
    """P1"""
    with pytest.raises(ConfigurationError, match="loopback"):
        require_development("development", ["127.0.0.1:9092", address])


@pytest.mark.parametrize("environment", ["production", "staging", "", "Development"])
def test_development_keys_are_refused_elsewhere(environment: str) -> None:
    """P1"""
    with pytest.raises(ConfigurationError, match="environment"):
        require_development(environment, [])
