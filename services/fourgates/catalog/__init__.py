"""Which tools exist and what each may do: contracts, rules, effects; how they are loaded, checked and exported."""

from .calling import invoke
from .catalog import Catalog
from .check import Finding, check_catalog
from .export import export_anthropic, export_mcp, export_openai
from .formats import WorkspacePath
from .lifecycle import close_tools, start_tools
from .limits import Quota, QuotaOf, Rate
from .loading import load_catalog
from .lookups import once
from .outcome import Committed, NotExecuted, Preview, Probed, ProbeVerdict, Streamed, ToolError, ToolErrorKind
from .stopping import Stopped, Stopping
from .tool import Effect, OnBreach, OnChange, OnDuplicate, OutputLimit, Rule, Tool, ToolContext

__all__ = [
    "Catalog", "Committed", "Effect", "Finding", "NotExecuted", "OnBreach", "OnChange", "OnDuplicate", "OutputLimit", "Preview",
    "ProbeVerdict", "Probed", "Quota", "QuotaOf", "Rate", "Rule", "Stopped", "Stopping", "Streamed", "Tool", "ToolContext",
    "ToolError", "ToolErrorKind", "WorkspacePath", "check_catalog", "close_tools", "export_anthropic", "export_mcp",
    "export_openai", "invoke", "load_catalog", "once", "start_tools",
]  # fmt: skip
