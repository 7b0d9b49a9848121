"""A gate's no, as a value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fourgates.contract.codes import Code
from fourgates.contract.parts import Fault


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call goes no further. `reason`, `field`, `faults` and `sentence` reach the model; `detail` only the audit."""

    code: Code
    reason: str
    field: str = ""
    faults: Sequence[Fault] = ()
    sentence: str = ""
    detail: Mapping[str, Any] = dataclasses.field(default_factory=dict)
