"""The demo's shop for `fourgates up --demo`: made once in the home, with its payment provider as a process beside the stages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fourgates.cli.local import Extra, free_ports
from fourgates.demo.config import VARIABLE, DemoConfig
from fourgates.demo.people import AGENT, PEOPLE, TENANT
from fourgates.demo.seed import prepare
from fourgates.runtime.supervisor import ProcessSpec

CATALOG = "fourgates.demo.shop:catalog"
TRY = (
    """  fourgates call get_order '{"order_id": "A-1001"}' --as anna""",
    """  fourgates call refund_order '{"order_id": "A-1001", "amount_cents": 2500, "reason": "damaged"}' --as anna""",
    """  fourgates call refund_order '{"order_id": "A-1002", "amount_cents": 48900, "reason": "damaged"}' --as anna""",
    """  fourgates approvals list --as ben""",
)
"""A read, a small refund that a policy waives, and a large one that waits for a person."""
_SEED = 7


def open_shop(home: Path) -> Extra:
    """The shop in the home's folder `demo`. One that is there goes on: its orders and books belong to the home's log."""
    folder = home.absolute() / "demo"
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    try:
        config = DemoConfig.model_validate_json((folder / "demo.json").read_bytes()).model_copy(update={"provider_url": url})
        file = config.write(folder)
    except (OSError, ValueError):
        config = prepare(folder, _SEED, url)
        file = folder / "demo.json"
    users = {name: {"tenant": TENANT, "groups": p.groups, "person": p.name, "agent": AGENT} for name, p in PEOPLE.items()}
    (folder / "users.json").write_text(json.dumps(users, indent=1), encoding="utf-8")
    argv = (sys.executable, "-m", "fourgates.demo.provider", "--books", str(config.books), "--port", str(port))
    return Extra(
        specs=(ProcessSpec("provider", argv, f"{url}/ready"),),
        settings={"catalog": CATALOG, "users_file": str(folder / "users.json")},
        environment={VARIABLE: str(file)},
    )
