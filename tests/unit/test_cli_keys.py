"""`fourgates keys`: whole environments and hosts' parts of them."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.keys import WRITERS, Keyring
from support.cli import invoke, refused


def test_new_key_file_holds_every_writers_key_and_is_its_owners_alone(tmp_path: Path) -> None:
    """P1: what `FOURGATES_KEYS_FILE` names; no development issuer in it."""
    file = tmp_path / "keys.json"
    result = invoke("keys", "create", str(file))
    assert result.exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    keyring = Keyring.from_file(file)
    for writer in (*WRITERS, "approver"):
        assert keyring.signer(writer)
    with pytest.raises(ConfigurationError, match="no development issuer"):
        _ = keyring.issuer
    for entry in json.loads(file.read_text())["seals"].values():
        for secret in entry.values():
            assert secret not in result.output


def test_hosts_part_opens_no_grant_and_seals_nothing(tmp_path: Path) -> None:
    """P1: a host asks and checks answers; it judges nothing."""
    file, part = tmp_path / "keys.json", tmp_path / "host.json"
    assert invoke("keys", "create", str(file)).exit_code == 0
    assert invoke("keys", "host", str(file), str(part)).exit_code == 0
    keyring = Keyring.from_file(part)
    assert keyring.validator_public() == Keyring.from_file(file).validator_public()
    for ask in (
        keyring.validator_private,
        keyring.door_token,
        keyring.result_key,
        *(lambda w=w: keyring.signer(w) for w in WRITERS),
    ):
        with pytest.raises(ConfigurationError):
            ask()


@pytest.mark.parametrize("writer", ["executor", "approver"])
def test_rotated_writer_has_a_new_key_and_the_old_one_an_end(tmp_path: Path, writer: str) -> None:
    """P6: what was sealed before stays true; what is appended after the end counts for nothing."""
    old, new = tmp_path / "keys.json", tmp_path / "new.json"
    invoke("keys", "create", str(old))
    assert invoke("keys", "rotate", str(old), writer, str(new), "--hours", "1").exit_code == 0
    before, after = Keyring.from_file(old), Keyring.from_file(new)
    assert (before.signer(writer).key_id, after.signer(writer).key_id) == (f"{writer}:1", f"{writer}:2")
    mac = before.signer(writer).sign(b"data")
    ends_ms = json.loads(new.read_text())["seals"][f"{writer}:1"]["retired_ms"]
    assert after.verifier().verify(f"{writer}:1", b"data", mac, ends_ms - 1)
    assert not after.verifier().verify(f"{writer}:1", b"data", mac, ends_ms)
    assert after.verifier().verify(f"{writer}:2", b"data", after.signer(writer).sign(b"data"), ends_ms)
    assert stat.S_IMODE(new.stat().st_mode) == 0o600


def test_key_file_is_never_overwritten(tmp_path: Path) -> None:
    """L2: without its keys no old record could be checked again."""
    file = tmp_path / "keys.json"
    invoke("keys", "create", str(file))
    before = file.read_bytes()
    refused(invoke("keys", "create", str(file)), "exists", "not overwritten")
    assert file.read_bytes() == before
