"""Where the demo's shop lies. The only part of the demo that looks at the environment, as a user's own catalog would."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from fourgates.contract.errors import ConfigurationError

VARIABLE = "FOURGATES_DEMO_CONFIG"
_FILE = "demo.json"


class DemoConfig(BaseModel):
    """Paths of the shop, of the provider's books and of the files, and where the provider listens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: Path
    books: Path
    files: Path
    provider_url: str

    def write(self, folder: Path) -> Path:
        """Writes `demo.json`; a stage's process finds it through FOURGATES_DEMO_CONFIG."""
        file = folder / _FILE
        file.write_text(self.model_dump_json(indent=2), encoding="utf-8")
        return file

    @classmethod
    def from_environment(cls) -> DemoConfig:
        """The file that FOURGATES_DEMO_CONFIG names. Raises ConfigurationError where there is none."""
        name = os.environ.get(VARIABLE, "")
        if not name:
            raise ConfigurationError(f"{VARIABLE} is not set; `fourgates up` and `make demo` set it, else name a demo.json")
        try:
            return cls.model_validate_json(Path(name).read_bytes())
        except OSError as fault:
            raise ConfigurationError(f"{VARIABLE}: {name} cannot be read ({fault.strerror}); run `make demo` again") from fault
        except ValidationError as fault:
            raise ConfigurationError(f"{VARIABLE}: {name} is not the demo's configuration; run `make demo` again") from fault
