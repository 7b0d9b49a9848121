"""Who calls and who decides on this command line: development users, or whoever a token speaks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fourgates.approval.service.settings import DevelopmentUser as Offered
from fourgates.cli.settings import PREFIX, DevelopmentUser, Settings
from fourgates.contract.errors import ConfigurationError
from fourgates.demo.people import AGENT, PEOPLE, TENANT
from fourgates.gates.identity import APPROVALS_AUDIENCE, AUDIENCE
from fourgates.runtime.keys import Keyring

DEMO = "fourgates.demo."


def development_users(settings: Settings) -> Mapping[str, DevelopmentUser]:
    """The users of the users file, else those of the demo's shop where its catalog runs."""
    if settings.users_file is None and settings.catalog.startswith(DEMO):
        return {
            name: DevelopmentUser(tenant=TENANT, groups=person.groups, person=person.name, agent=AGENT)
            for name, person in PEOPLE.items()
        }
    return settings.users()


def offered_users(settings: Settings) -> tuple[Offered, ...]:
    """As whom the approver's page lets people sign in, in development."""
    users = development_users(settings).items()
    return tuple(Offered(name=name, label=", ".join(user.groups)) for name, user in users)


def caller_token(settings: Settings, keyring: Keyring, user: str | None, file: Path | None) -> str:
    """A token to call with, the user's agent in it. Raises ConfigurationError, saying how to say who calls."""
    if user is None:
        return _given_token(settings, file)
    known = _known(settings, user)
    return keyring.issuer.token(user, known.tenant, known.groups, agent=known.agent, person=known.person, audience=AUDIENCE)


def issue_approver(settings: Settings, keyring: Keyring, user: str) -> str:
    """What the development issuer gives this user to decide with."""
    known = _known(settings, user)
    return keyring.issuer.token(user, known.tenant, known.groups, person=known.person, audience=APPROVALS_AUDIENCE)


def _known(settings: Settings, user: str) -> DevelopmentUser:
    if settings.environment != "development":
        raise ConfigurationError(f"--as: {PREFIX}ENVIRONMENT is {settings.environment!r}, where only tokens count; "
                                 f"give --token-file or {PREFIX}TOKEN")  # fmt: skip
    users = development_users(settings)
    if not users:
        raise ConfigurationError(f"--as: there are no development users; name a file with them in {PREFIX}USERS_FILE")
    if user not in users:
        raise ConfigurationError(f"--as: there is no development user {user!r}; there are {', '.join(sorted(users))}")
    return users[user]


def _given_token(settings: Settings, file: Path | None) -> str:
    if file is not None:
        token = file.read_text(encoding="utf-8").strip()
    else:
        token = settings.token.get_secret_value() if settings.token is not None else ""
    if not token:
        raise ConfigurationError(f"Say who it is: --as USER in development, else --token-file or {PREFIX}TOKEN.")
    return token
