"""Which tools exist and what each may do: contracts, rules, effects; how they are loaded, checked and exported."""

from .catalog import Catalog
from .outcome import Committed, NotExecuted, Preview, Probed, ProbeVerdict, ToolError, ToolErrorKind
from .tool import Effect, OnBreach, OnDuplicate, OutputLimit, Rule, Tool, ToolContext

__all__ = [
    "Catalog", "Committed", "Effect", "NotExecuted", "OnBreach", "OnDuplicate", "OutputLimit", "Preview", "ProbeVerdict",
    "Probed", "Rule", "Tool", "ToolContext", "ToolError", "ToolErrorKind",
]  # fmt: skip
