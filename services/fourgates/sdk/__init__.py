"""What an agent imports: runs, calls, observations. Loads neither Faust nor a web framework."""

from .answer import Answer, PageRefused, RunStopped
from .bearer import TokenSource
from .client import Client
from .run import Options, Run
from .settings import SdkSettings
from .sync import SyncClient, SyncRun
from .transport import BusTransport, Transport

__all__ = [
    "Answer", "BusTransport", "Client", "Options", "PageRefused", "Run", "RunStopped", "SdkSettings", "SyncClient", "SyncRun",
    "TokenSource", "Transport",
]  # fmt: skip
