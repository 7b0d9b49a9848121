"""Makes the shop: the same seed gives the same customers, orders and payments. Every name is invented."""

from __future__ import annotations

import random
import sqlite3
import string
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

from fourgates.demo.books import Books
from fourgates.demo.cast import CAST, FILES, FIRST_NAMES, LAST_NAMES, PRODUCTS, STREETS, TOWNS
from fourgates.demo.config import DemoConfig
from fourgates.demo.people import CLERKS
from fourgates.demo.store import TABLES

_STATUSES = ("delivered", "delivered", "delivered", "shipped", "processing", "cancelled")
_EPOCH = date(2025, 1, 6)
_CUSTOMERS, _ORDERS = 80, 160


def prepare(folder: Path, seed: int, provider_url: str) -> DemoConfig:
    """Makes shop, provider's books and files afresh in `folder`, and writes `demo.json` for the processes that need it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = DemoConfig(
        database=folder / "shop.sqlite", books=folder / "provider.sqlite", files=folder / "files", provider_url=provider_url
    )
    for path in (config.database, config.books):
        for part in ("", "-wal", "-shm"):
            path.with_name(path.name + part).unlink(missing_ok=True)
    charges = make_shop(config.database, seed)
    books = Books(config.books)
    books.add_charges(charges)
    books.close()
    for name, text in FILES.items():
        file = config.files / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    config.write(folder)
    return config


def make_shop(path: Path, seed: int) -> list[tuple[str, int]]:
    """A new shop in a new SQLite file; returns its charges, (charge, cents), for the provider's books."""
    rng = random.Random(seed)  # noqa: S311 - made-up data
    with closing(sqlite3.connect(path)) as db:
        db.executescript("PRAGMA journal_mode=WAL;" + TABLES)
        with db:
            products = [(f"P-{number:02d}", name, cents) for number, (name, cents) in enumerate(PRODUCTS, 1)]
            db.executemany("INSERT INTO products VALUES (?, ?, ?)", products)
            names = [cast.customer for cast in CAST]
            everybody = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
            names += rng.sample([name for name in everybody if name not in names], _CUSTOMERS - len(names))
            clerks = [cast.clerk for cast in CAST]
            clerks += [rng.choice(CLERKS) for _ in range(_CUSTOMERS - len(clerks))]
            who = enumerate(zip(names, clerks, strict=True), 1)
            customers = [(f"C-{number:03d}", *_customer(rng, name), clerk) for number, (name, clerk) in who]
            db.executemany("INSERT INTO customers VALUES (?, ?, ?, ?, ?, ?)", customers)
            charges = [
                _order(db, rng, cast.id, customer, cast.status, [(products[cast.product], 1)], cast.note)
                for cast, customer in zip(CAST, customers, strict=False)
            ]
            for number in range(_ORDERS):
                bought = [(product, rng.randint(1, 2)) for product in rng.sample(products, rng.randint(1, 3))]
                customer = rng.choice(customers[len(CAST) :])
                charges.append(_order(db, rng, f"A-{3001 + number}", customer, rng.choice(_STATUSES), bought, ""))
            word = "".join(rng.choices(string.ascii_letters + string.digits, k=24))
            db.execute(
                "INSERT INTO settings VALUES ('warehouse', ?)", (f"postgresql://exporter:{word}@warehouse.example:5432/shop",)
            )
    return charges


def _customer(rng: random.Random, name: str) -> tuple[str, str, str, str]:
    """(name, e-mail, phone, address)."""
    return (name, f"{name.lower().replace(' ', '.')}@post.example", f"+49 30 {rng.randint(1_000_000, 9_999_999)}", _address(rng))


def _address(rng: random.Random) -> str:
    return f"{rng.randint(1, 99)} {rng.choice(STREETS)} Street, {rng.choice(TOWNS)}"


def _order(
    db: sqlite3.Connection, rng: random.Random, order_id: str, customer: tuple[str, ...], status: str,
    bought: list[tuple[tuple[str, str, int], int]], note: str,
) -> tuple[str, int]:  # fmt: skip
    placed = _EPOCH + timedelta(days=rng.randint(0, 360))
    db.execute(
        "INSERT INTO orders (id, customer, status, placed_on, address, note) VALUES (?, ?, ?, ?, ?, ?)",
        (order_id, customer[0], status, placed.isoformat(), customer[4], note),
    )
    lines = [(order_id, product, quantity, cents) for (product, _, cents), quantity in bought]
    db.executemany("INSERT INTO order_lines VALUES (?, ?, ?, ?)", lines)
    charge, total = f"ch_{rng.getrandbits(48):012x}", sum(quantity * cents for *_, quantity, cents in lines)
    db.execute("INSERT INTO payments VALUES (?, ?, ?)", (order_id, charge, total))
    return charge, total
