"""No secret comes out, however it is split, spelt or nested; what is none stays."""

import json
import random
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourgates.contract.errors import ConfigurationError
from fourgates.gates import redaction_matcher
from fourgates.gates.redaction import Redacted, Redactor
from fourgates.gates.redaction_marks import has_placeholder
from fourgates.gates.redaction_patterns import CHOSEN, PATTERNS, SECRETS, Pattern
from fourgates.gates.redaction_proof import prove
from fourgates.gates.redaction_words import is_worded

KEY = b"a placeholder key for tests"
PLACEHOLDER = re.compile(r"\[redacted:[a-z_]+:[0-9a-f]{6}\]")
INVISIBLE = ["\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u202e", "\U000e0041", "\ufe0f", "\x00", "\x07", "\x1b[0m"]
ALL = Redactor(KEY, "call-1", CHOSEN)
PLAIN = Redactor(KEY, "call-1")


def _id(pattern: Pattern) -> str:
    return f"{pattern.kind}-{pattern.sample[1][:12].strip()}"


@pytest.mark.parametrize("pattern", PATTERNS, ids=_id)
@pytest.mark.parametrize("glue", INVISIBLE, ids=ascii)
def test_a_secret_split_by_invisible_characters_never_comes_out(pattern: Pattern, glue: str) -> None:
    """R3"""
    before, first, second, after = pattern.sample
    shown = ALL.redact(f"{before}{first}{glue}{second}{after}")
    assert second.strip() not in shown.text
    assert PLACEHOLDER.search(shown.text)


@pytest.mark.parametrize("pattern", PATTERNS, ids=_id)
def test_a_secret_inside_json_is_found_and_json_stays_json(pattern: Pattern) -> None:
    """R3"""
    before, first, second, after = pattern.sample
    text = json.dumps({"log": [f"{before}{first}\u200b{second}{after}"], "n": 1})
    shown = ALL.redact(text)
    assert json.loads(shown.text)["n"] == 1
    assert second.strip() not in shown.text and second.strip() not in json.loads(shown.text)["log"][0]


@pytest.mark.parametrize("pattern", [p for p in PATTERNS if p.kind in SECRETS], ids=_id)
@given(data=st.data())
@settings(max_examples=25)
def test_a_secret_anywhere_in_any_text_is_found(pattern: Pattern, data: st.DataObject) -> None:
    """R3"""
    before, first, second, after = pattern.sample
    words = st.text(alphabet=st.sampled_from("abc xyz.\n,äß日😀"), max_size=40)
    head, tail = data.draw(words), data.draw(words)
    shown = PLAIN.redact(f"{head}\n{before}{first}{second}{after}\n{tail}")
    assert second.strip() not in shown.text


@given(st.text(alphabet="ab:= \n\"'{}[]@./password4secrtokn\\u20-\u200b", max_size=80) | st.text(max_size=60))
@settings(max_examples=300)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    """R3"""
    once = ALL.redact(text)
    assert ALL.redact(once.text) == Redacted(once.text, 0)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["password", "a", "value", "name"]), inner),
    max_leaves=12,
)


@given(_JSON)
def test_redacting_json_twice_changes_nothing_more_and_keeps_the_shape(value: object) -> None:
    """R3, R4"""
    once, _ = ALL.redact_json(value)
    assert ALL.redact_json(once) == (once, 0)
    assert json.loads(json.dumps(once)) == once


@pytest.mark.parametrize(
    "value",
    [
        {"password": "hunter2"}, {"dbPassword": 12345}, {"client-secret": "x"}, {"a": {"api_key": "swordfish"}},
        {"secrets": {"one": "swordfish"}}, {"passwords": ["swordfish"]}, {"env": [{"name": "DB_PASSWORD", "value": "swordfish"}]},
        {"headers": [["Authorization", "Bearer swordfish"], ["Accept", "x"]]}, {"headers": {"Cookie": "sid=swordfish"}},
        {"columns": ["id", "password"], "rows": [[1, "swordfish"], [2, "hunter2"]]},
        {"schema": [{"name": "user"}, {"name": "api_key"}], "data": [["anna", "swordfish"]]},
        {"cookies": {"sid": "swordfish"}}, {"pass\u200bword": "swordfish"}, '{"pass\\u0077ord": "swordfish"}',
        '{"a": "{\\"password\\": \\"swordfish\\"}"}', '{"password": "pike", "password": "swordfish"}',
        'noise {"password": "swordfish"} noise', '{\\"password\\": \\"swordfish\\"} noise', "password=swordfish",
        "password: swordfish", "--password swordfish", "export DB_PASSWORD='swordfish'", "<db:password>swordfish</db:password>",
        "x\n  password: correct swordfish battery\n", "https://x.example/?api_key=swordfish&page=2",
        '{"level": "info"}\n{"password": "swordfish"}\nend', "- name: DB_PASSWORD\n  value: swordfish", "X-Api-Key: swordfish",
        "password: |\n  swordfish\nnext: 1", "&quot;password&quot;: &quot;swordfish&quot;",
        '<input name="password" value="swordfish">',
        "curl -H 'X-Api-Key: swordfish' https://x.example", "{user: anna, password: swordfish}", "SMTP_PASS=swordfish",
        "sshpass -p swordfish ssh x", "mysql -u shop -pswordfish", "Kennwort: swordfish", "Mot de passe: swordfish",
        '{"password": "[redacted:secret:aaaaaa] swordfish"}', {"password": "[redacted:secret:aaaaaa] swordfish"},
    ],
    ids=str,
)  # fmt: skip
def test_a_telling_name_tells_about_its_value(value: object) -> None:
    """R3"""
    shown = PLAIN.redact(value).text if isinstance(value, str) else json.dumps(PLAIN.redact_json(value)[0])
    assert "swordfish" not in shown and "hunter2" not in shown and "12345" not in shown
    assert PLACEHOLDER.search(shown)


@pytest.mark.parametrize(
    "text",
    [
        "order A-1001 of 2024-01-02 at 10:00: 3 items, 59.90 EUR, paid", "the token count is 512; max_tokens=4096",
        '{"next_page_token": "CAUQAA1234567890abcdefg", "total": 3}',
        '{"key": "PROJ-1234", "idempotency_key": "a1b2c3d4e5f6a7b8c9d0"}',
        "def login(password: str, token=get_token()) -> bool:", "password=${DB_PASSWORD}", "password: <your password>",
        "password={{ vault.db }}",
        "a task-force-organisation-and-more-things report", "https://host.example:8080/path/user@x", "basic understanding",
        "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "id 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "the bearer of this letter", "a cookie: sweet and round", '{"tokens": 512, "password": null, "secret": true}',
        '{"columns": ["id", "name"], "rows": [[1, "swordfish"], ["a"]], "header": 1}', "tests pass: 12, fail: 3",
        "the token of the shop is required", "https://www.shop.example/@anna.k",
        "Authorization: required",
        "[redacted:secret:abcdef]", "Passwort vergessen? Kein Problem.", "session: morning session",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    """R4"""
    assert PLAIN.redact(text) == Redacted(text, 0)


IN_RUNNING_TEXT = [
    "Shop account password: %s", "call me back, the password is %s, as always", "{'user': 'anna', 'password': '%s'}",
    "I have a new account. Password:\n    %s\nBest", "your one-time access token: %s!", "Password:\n\n%s\n",
    "the API key for the shop is %s.",
]  # fmt: skip


@pytest.mark.parametrize("text", IN_RUNNING_TEXT)
@pytest.mark.parametrize("value", ["annalund.pass", "summer2024", "anna.lund.123"])
def test_a_password_of_words_in_running_text_goes_only_where_the_contract_names_passwords(text: str, value: str) -> None:
    """R3, R4: a model may have been asked to sign in with it; where a value has its place, it goes whatever it looks like."""
    if " is " not in text or any(map(str.isdigit, value)):
        assert value not in Redactor(KEY, "c", ["password"]).redact(text % value).text
    assert PLAIN.redact(text % value).text == text % value
    assert value not in PLAIN.redact(f"password: {value}").text


@pytest.mark.parametrize("text", IN_RUNNING_TEXT)
@pytest.mark.parametrize("value", ["4fA7bQ9cZ2", "Tr0ub4dor&3", "k8wq3-zz71x-p04mm"])
def test_a_dense_value_in_running_text_goes_for_every_tool(text: str, value: str) -> None:
    """R3"""
    assert value not in PLAIN.redact(text % value).text


def test_a_key_before_a_host_is_one_of_that_address() -> None:
    """R3"""
    assert "4fA7" not in PLAIN.redact("git clone https://4fA7bQ9cZ2dK8eM3@git.example/shop.git").text
    assert "VdMm" not in PLAIN.redact("Authorization: VdMmrlOb").text


def test_only_one_key_in_a_hundred_could_be_words() -> None:
    """R3: what looks like words is not taken out of running text."""
    chance = random.Random(7)
    for alphabet in (string.ascii_letters + string.digits, string.ascii_lowercase + string.digits, string.hexdigits + "_-"):
        keys = ["".join(chance.choices(alphabet, k=16)) for _ in range(2_000)]
        assert sum(map(is_worded, keys)) <= 20


@pytest.mark.parametrize("key", ["-----BEGIN RSA PRIVATE KEY-----\n%s", "-----BEGIN PRIVATE KEY-----%s-----END PRIVATE KEY-----"])
def test_a_private_key_is_one_by_what_follows_its_first_line(key: str) -> None:
    """R3, R4"""
    assert PLAIN.redact(key % "\n") == Redacted(key % "\n", 0)
    for body in ("Proc-Type: 4,ENCRYPTED\n\nMIIE\nvQ4f\n", "MIIEvQ4fA7bQ", "\\nMIIEvQ4fA7bQ\\n"):
        assert "vQ4f" not in PLAIN.redact(key % body).text


@pytest.mark.parametrize(
    ("kind", "text", "gone"),
    [
        ("card", "paid with 4111 1111 1111 1111 2024", "4111 1111 1111 1111"),
        ("card", "x4111111111111111y", "4111111111111111"),
        ("card", "3782-822463-10005", "3782-822463-10005"),
        ("iban", "to DE89 3704 0044 0532 0130 00 BIC X", "DE89 3704 0044 0532 0130 00"),
        ("email", "write to Ännë.o'x+y@sub.shop.example now", "Ännë.o'x+y@sub.shop.example"),
        ("phone", "call +49 (0)30 901-820 or", "+49 (0)30 901-820"),
        ("phone", "call 555-123-4567.", "555-123-4567"),
    ],
)
def test_personal_data_goes_only_where_the_contract_names_it(kind: str, text: str, gone: str) -> None:
    """R3"""
    assert gone not in Redactor(KEY, "c", [kind]).redact(text).text
    assert PLAIN.redact(text).text == text


@pytest.mark.parametrize(
    "text",
    ["4111 1111 1111 1112", "2024-01-02", "10.0.0.1", "1.234.567", "DE00 3704 0044 0532 0130 00", "19.99", "20240102101500"],
)
def test_numbers_that_are_no_card_iban_or_phone_stay(text: str) -> None:
    """R4"""
    assert ALL.redact(text).text == text


def test_a_number_in_json_can_be_a_card_or_be_named_a_phone() -> None:
    """R3"""
    value, count = ALL.redact_json({"n": 4111111111111111, "phone": 5551234, "mobile_phone": "5551234", "total": 12})
    assert count == 3
    assert value["total"] == 12 and "5551234" not in json.dumps(value) and "4111111111111111" not in json.dumps(value)


def test_the_same_value_has_the_same_placeholder_in_a_call_and_another_one_in_another_call() -> None:
    """R3"""
    text = "password=swordfish\nsecret=swordfish\npassword=pikeperch"
    first, second, third = PLACEHOLDER.findall(PLAIN.redact(text).text)
    assert first == second != third
    other = Redactor(KEY, "call-2").redact(text).text
    assert first not in other
    assert first not in Redactor(b"another key", "call-1").redact(text).text


def test_a_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="shoe_size"):
        Redactor(KEY, "c", ["shoe_size"])


@pytest.mark.parametrize(
    "arguments",
    [
        "x [redacted:secret:ab12cd]", {"a": ["[redacted:card:ab12cd]"]}, {"[redacted:api_key:ab12cd]": 1},
        "[Redacted: secret: AB12CD]", "[reda\u200bcted:secret:ab12cd]", PLAIN.redact("password=swordfish").text,
    ],
)  # fmt: skip
def test_a_placeholder_that_travels_back_is_seen(arguments: object) -> None:
    """R3"""
    assert has_placeholder(arguments)


@pytest.mark.parametrize("arguments", ["redacted", {"a": "[redacted]"}, {"a": 1, "b": [None, True, "x"]}, "[redacted:secret]"])
def test_other_text_is_no_placeholder(arguments: object) -> None:
    assert not has_placeholder(arguments)


def test_redaction_proves_itself_and_refuses_to_start_where_a_form_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """R3"""
    prove()
    monkeypatch.setattr(redaction_matcher.Matcher, "spans", lambda self, text: [])
    with pytest.raises(ConfigurationError, match="out of order"):
        prove()


def test_hints_that_ran_out_of_memory_do_not_hide_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """R3"""
    matcher = redaction_matcher.Matcher(frozenset(SECRETS))

    class Exhausted:
        def Match(self, text: str) -> None:
            return None

    monkeypatch.setattr(matcher._forms, "_set", Exhausted())
    assert matcher.spans("password=swordfish")


def test_deep_and_endless_json_is_flattened_not_passed_on() -> None:
    """R3"""
    value: object = "password=swordfish"
    for _ in range(500):
        value = [value]
    shown, count = PLAIN.redact_json(value)
    assert count == 1 and "swordfish" not in json.dumps(shown)


@pytest.mark.parametrize(
    "unit", ["://a:", "a: b;", "\\u20", "eyJ", "aa12 ", "12 ", 'password="', "user=a;", "-----BEGIN PRIVATE KEY-----", "a@b.cd "]
)
def test_no_text_takes_more_than_linear_time(unit: str) -> None:
    """A quadratic form would take minutes here and run into the test's timeout."""
    ALL.redact(unit * (200_000 // len(unit)))
