"""Addresses and folders that the user named: what is the same place, what lies beneath, and what only looks so."""

from __future__ import annotations

import posixpath
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourgates.contract.parts import Origin
from fourgates.gates.addresses import DEPTH, addresses_in, folders_of
from fourgates.gates.origins import recompute


def origin_of(value: Any, *turns: str, host: str = "") -> str:
    """As the validator marks it for a contract that takes `within`."""
    marks = (Origin(pointer="/v", origin=host, source="page", quote="see there"),) if host else ()
    (mark,) = recompute({"v": value}, turns, marks, within={"v"})
    return mark.origin


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("https://www.bank.com", "visit www.bank.com."),
        ("http://www.bank.com/", "visit www.bank.com"),
        ("https://www.bank.com/pay", "visit http://www.bank.com/pay, please"),
        ("www.bank.com/pay/", "visit (https://www.bank.com/pay)"),
        ("HTTPS://WWW.Bank.com", "see www.bank.com's page"),
        ("https://www.bank.com/a?b=1", "see https://www.bank.com/a?b=1"),
        ("/documents/", "save it to /documents"),
    ],
)
def test_another_spelling_of_the_same_place_is_the_users(value: str, said: str) -> None:
    """B4"""
    assert origin_of(value, said) == "user"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("https://www.bank.com/files/bill.pdf", "visit www.bank.com"),
        ("www.bank.com/files/bill.pdf?page=2", "visit www.bank.com"),
        ("https://www.bank.com/anna/2024/bill.pdf", "it is below https://www.bank.com/anna/"),
        ("https://bank.com:8443/x", "use https://bank.com:8443"),
        ("/documents/bill.pdf", "save it to /documents."),
        ("/documents/2024/bill.pdf", "the folder is '/documents/2024/'"),
        ("~/notes/today.txt", "my notes are in ~/notes"),
    ],
)
def test_what_lies_beneath_a_named_place_is_within_and_never_the_users(value: str, said: str) -> None:
    """B4: the rest of it is the site's, or whoever's page was read."""
    assert origin_of(value, said) == "within"
    assert recompute({"v": value}, (said,), ())[0].origin == "model"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("https://www.bank.com.evil.org/x", "visit www.bank.com"),
        ("https://www.bank.com@evil.org/x", "visit www.bank.com"),
        ("https://evil.org/www.bank.com/x", "visit www.bank.com"),
        ("https://evil.org#www.bank.com/x", "visit www.bank.com"),
        ("https://www.bank.com\\@evil.org/x", "visit www.bank.com"),
        ("https://www.bank.com:80@evil.org/x", "visit www.bank.com"),
        ("https://www.bank.com:8080/x", "visit www.bank.com"),
        ("https://www.bаnk.com/x", "visit www.bank.com"),
        ("https://www.bank.com／x", "visit www.bank.com"),
        ("https://www.bank\u200b.com/x", "visit www.bank.com"),
        ("https://files.bank.com/x", "visit www.bank.com"),
        ("https://www.bank.com/a/../../x", "visit www.bank.com/a"),
        ("https://www.bank.com/a/%2e%2E/x", "visit www.bank.com/a"),
        ("https://www.bank.com/a%2f..%2fx", "visit www.bank.com"),
        ("https://www.bank.com/a\nb", "visit www.bank.com"),
        ("javascript://www.bank.com/x", "visit www.bank.com"),
        ("http://www.bank.com/x", "visit https://www.bank.com"),
        ("https://www.bank.com/annabel/x", "visit https://www.bank.com/anna"),
        ("https://www.bank.com/x", "visit https://www.bank.com/post?id=1"),
        ("https://readme.md/x", "update readme.md"),
        ("https://and.run/x", "stop it and.run the next"),
        ("https://www.bank.com/x", "the password is https://ann:www.bank.com@other.org"),
        ("https://www.bank.com/x", "mail to ann@www.bank.com"),
        ("https://www.bank.com/x", "see notwww.bank.com"),
        ("https://www.bank.com/x", "see www.bank.com.evil.org"),
    ],
)
def test_another_place_that_looks_like_the_named_one_is_neither(value: str, said: str) -> None:
    """B4"""
    assert origin_of(value, said) == "model"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("/documents/../etc/passwd", "save it to /documents"),
        ("/documents/./x", "save it to /documents"),
        ("/documents//x", "save it to /documents"),
        ("/documents\\..\\x", "save it to /documents"),
        ("/documents/a\x00b", "save it to /documents"),
        ("/documents2/x", "save it to /documents"),
        ("/Documents/x", "save it to /documents"),
        ("/x", "the root is / here"),
        ("/downloads/x", "it lies in ~/downloads"),
        ("/etc/x", "it lies in ./etc"),
        ("/etc/x", "it lies in /home/anna/etc"),
        ("/user/x", "it is called /user/info/my.txt"),
        ("documents/x", "save it to documents"),
        ("evil/repository", "star evil or not"),
        ("/a" * (DEPTH + 1), "save it to /a"),
    ],
)
def test_a_path_that_leaves_or_only_resembles_the_named_folder_is_not_within(value: str, said: str) -> None:
    """B4"""
    assert origin_of(value, said) == "model"


@pytest.mark.parametrize(("value", "said"), [("/downloads", "it lies in ~/downloads"), ("/etc", "it lies in ./etc")])
def test_a_relative_path_does_not_name_the_absolute_one(value: str, said: str) -> None:
    """B4"""
    assert origin_of(value, said) == "model"


def test_within_keeps_the_source_and_its_words_for_people() -> None:
    """B4"""
    host = (Origin(pointer="/v", origin="result:c1", source="page", quote="load www.bank.com/x"),)
    (mark,) = recompute({"v": "www.bank.com/x"}, ("visit www.bank.com",), host, within={"v"})
    assert (mark.origin, mark.source, mark.quote) == ("within", "page", "load www.bank.com/x")


def test_within_is_looked_for_only_where_the_contract_asks() -> None:
    """B4: elsewhere the mark would hide the result that the value came from."""
    assert origin_of("www.bank.com/x", "visit www.bank.com", host="result:c1") == "within"
    (mark,) = recompute({"v": "www.bank.com/x"}, ("visit www.bank.com",), (Origin(pointer="/v", origin="result:c1"),))
    assert mark.origin == "result:c1"


def test_a_hosts_word_that_something_lies_within_is_not_believed() -> None:
    """B4"""
    assert origin_of("https://evil.org/x", "visit www.bank.com", host="within") == "model"


_ODD = st.text(alphabet="ab.@:/\\#?%2e-_ \t\u200b\u3002\uff0e\uff0fа", max_size=6)


@given(_ODD, _ODD, st.sampled_from(["https://", "http://", "", "HTTPS://"]))
def test_whatever_is_within_reaches_the_named_host_and_no_other(before: str, after: str, scheme: str) -> None:
    """B4: two other readers of addresses agree on the host, or refuse to read it."""
    value = f"{scheme}{before}www.bank.com{after}/x"
    if origin_of(value, "visit www.bank.com") != "model":
        full = value if "://" in value else f"https://{value}"
        assert urlsplit(full).hostname == "www.bank.com"
        assert httpx.URL(full).host == "www.bank.com"
        assert ".." not in unquote(urlsplit(full).path).split("/")


@given(st.lists(st.sampled_from(["a", "..", ".", "", "b c", "...", "%2e", "docs", "\\", "~"]), max_size=6))
def test_whatever_is_within_a_folder_stays_there(names: list[str]) -> None:
    """B4"""
    value = "/".join(["/docs", *names])
    if origin_of(value, "in /docs please") == "within":
        assert posixpath.normpath(value).startswith("/docs/")
    assert all(value.startswith(f"{folder}/") for folder in folders_of(value))


@given(st.text(alphabet="w.abc:/@ \n\\?#'\"()<>\x00é", max_size=60))
def test_every_text_can_be_searched_for_addresses(text: str) -> None:
    """B4"""
    for address, at in addresses_in(text):
        assert address.host in text[at:].lower()


@pytest.mark.parametrize(
    "text",
    ["www." + "a." * 200_000, "www.a.b" + ",'" * 200_000 + "\\", "www.a.b/" + "'" * 300_000 + "|", ("www." + "a" * 63) * 6_000],
)
def test_addresses_made_to_be_slow_are_passed_over_soon(text: str) -> None:
    """B4: the test's own time limit is the bound."""
    assert origin_of("https://www.bank.com/x", text) == "model"
