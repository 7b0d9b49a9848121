"""`fourgates init`: a catalog to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from fourgates.cli.faults import Fault

STARTER = Path(__file__).parent / "starter"
FILES = ("tools.py", "policies.cedar", "users.json", "test_tools.py", "fourgates.env", "README.md", ".gitignore")
"""What is written. A leading dot is not part of the name in the package."""


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def init(folder: Path) -> None:
    """Writes a catalog with one read and one write tool into FOLDER: contract, policies, users and a test of all of it."""
    if folder.exists() and any(folder.iterdir()):
        raise Fault(f"{folder} is not empty; name a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (folder / name).write_bytes((STARTER / name.removeprefix(".")).read_bytes())
        click.echo(f"wrote {folder / name}")
    click.echo(f"\ncd {folder}\nfourgates catalog check\nfourgates up")
