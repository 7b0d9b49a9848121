"""Keys that look like nothing in particular and are known by the provider's name beside them: `DATADOG_APP = "..."`.

Names, lengths and alphabets follow the rules of gitleaks (MIT licence, Copyright (c) 2019 Zachary Rice).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fourgates.gates.redaction_names import entropy

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

FORMS: tuple[tuple[str, str], ...] = (
    # (names, alternatives with |; what their keys look like)
    (r"adobe|facebook|finicity|linear", r"[a-f0-9]{32}"),
    (r"algolia|asana|bitbucket|bittrex|codecov|droneci|flickr|private[_-]?ai", r"[a-z0-9]{32}"),
    (r"adafruit|discord|fastly|nytimes|new-?york-?times,?", r"[a-z0-9=_-]{32}"),
    (r"heroku|hubspot|kucoin|message[_-]?bird|sendbird|squarespace|snyk", _UUID),
    (r"cloudflare|cohere|co_api_key|datadog|gitter|launchdarkly|meraki|sendbird|sonar|zendesk", r"(?:sq[upa]_)?[a-z0-9=_-]{40}"),
    (r"netlify", r"[a-z0-9=_-]{40,46}"),
    (r"atlassian|confluence|jira", r"[a-z0-9]{20}[a-f0-9]{4}"),
    (r"bitbucket|coinbase|confluent|discord|freshbooks|jfrog|artifactory|bintray|xray|new[_-]?relic|sentry|sumo",
     r"[a-z0-9=_-]{64}"),
    (r"jfrog|artifactory|bintray|xray", r"[a-z0-9]{73}"),
    (r"etsy|kucoin|looker|plaid", r"[a-z0-9]{24}"),
    (r"alibaba|plaid|twitch", r"[a-z0-9]{30}"),
    (r"finicity|finnhub|looker", r"[a-z0-9]{20}"),
    (r"message[_-]?bird|twitter", r"[a-z0-9]{25}"),
    (r"rapidapi|twitter", r"[a-z0-9_-]{50}"),
    (r"linked[_-]?in", r"[a-z0-9]{14}|[a-z0-9]{16}"),
    (r"confluent", r"[a-z0-9]{16}"),
    (r"asana", r"[0-9]{16}"),
    (r"discord", r"[0-9]{18}"),
    (r"airtable", r"[a-z0-9]{17}"),
    (r"travis", r"[a-z0-9]{22}"),
    (r"mattermost", r"[a-z0-9]{26}"),
    (r"cloudflare", r"[a-f0-9]{37}"),
    (r"contentful", r"[a-z0-9=_-]{43}"),
    (r"okta", r"00[a-z0-9_=-]{40}"),
    (r"twitter", r"[a-z0-9]{45}|[0-9]{15,25}-[a-z0-9]{20,40}|a{22}[a-z0-9%]{80,100}"),
    (r"intercom", r"[a-z0-9=_-]{60}"),
    (r"kraken", r"[a-z0-9/=_+-]{80,90}"),
    (r"beamer", r"b_[a-z0-9=_-]{44}"),
    (r"dropbox", r"[a-z0-9]{15}|[a-z0-9]{11}a{10}[a-z0-9_=-]{43}|sl\.[a-z0-9=_-]{135}"),
    (r"dnkey", r"dnkey-[a-z0-9=_-]{26}-[a-z0-9=_-]{52}"),
    (r"gocardless", r"live_[a-z0-9=_-]{40}"),
    (r"lob", r"(?:live|test)_(?:pub_)?[a-f0-9]{31,35}"),
    (r"mailchimp|mailchimpsdk.initialize", r"[a-f0-9]{32}-us[0-9]{2}"),
    (r"mailgun", r"(?:pub)?key-[a-f0-9]{32}|[a-h0-9]{32}-[a-h0-9]{8}-[a-h0-9]{8}"),
    (r"mapbox", r"pk\.[a-z0-9]{60}\.[a-z0-9]{22}"),
    (r"new[_-]?relic", r"nri[a-z]-[a-z0-9-]{32}|nrak-[a-z0-9]{27}"),
    (r"plaid", rf"access-(?:sandbox|development|production)-{_UUID}"),
    (r"sourcegraph", r"[a-f0-9]{40}"),
    (r"sumo", r"su[a-z0-9]{12}"),
    (r"telegr", r"[0-9]{5,16}:a[a-z0-9_-]{34}"),
    (r"typeform", r"tfp_[a-z0-9_.=-]{59}"),
    (r"yandex", r"t1\.[a-z0-9_-]+={0,2}\.[a-z0-9_-]{86}={0,2}|aqvn[a-z0-9_-]{35,38}|yc[a-z0-9_-]{38}"),
    (r"bundle_(?:enterprise|gems)__contribsys__com", r"[a-f0-9]{8}:[a-f0-9]{8}"),
)  # fmt: skip

_NAMES = "|".join(dict.fromkeys(name for names, _ in FORMS for name in names.split("|")))
_VALUE = r"[a-z0-9_=\-.%:+/]{14,200}"
_ASSIGNED = r"[ \t\w.\-]{0,20}[\s'\"]{0,3}(?:=>|\|\||:{1,3}=|\?=|[=>:,])[`'\"\s=]{0,5}"
HINT = rf"(?i)(?:{_NAMES}){_ASSIGNED}[a-z0-9_=\-.%:+/]{{8}}"
BESIDE = rf"(?i)({_NAMES}){_ASSIGNED}({_VALUE})(?:[`'\"\s;\\]|$)"
_BY_NAME = tuple((re.compile(rf"(?:{names})", re.I), re.compile(form, re.I)) for names, form in FORMS)
_LEAST_ENTROPY = 2.0


def keys_beside(found: Any) -> Iterator[tuple[int, int]]:
    """The value of a match of BESIDE, where it has the form of that provider's keys and is no word."""
    name, (start, end) = found.group(1), found.span(2)
    forms = [form for named, form in _BY_NAME if named.fullmatch(name)]
    for begin in (start, start - 1, start - 2):  # a key may begin with the sign of the assignment
        value = found.string[begin:end]
        if value[: start - begin].strip("=") == "" and any(form.fullmatch(value) for form in forms) and _is_no_word(value):
            yield begin, end
            return


def _is_no_word(value: str) -> bool:
    """Digits in it, or capitals within: `linkedin: communications` is a sentence."""
    mixed = value[1:] not in (value[1:].lower(), value[1:].upper())
    return (any(c.isdigit() for c in value) or mixed) and entropy(value) >= _LEAST_ENTROPY
