"""Consumes approvals.

Produces nothing on the bus: it tells people, by webhooks, that they are asked, reminded, or late.
Never carries arguments, previews or anything that an agent wrote; never decides.
"""

from .notifier import Notifier
from .settings import Hook, NoticeSettings

__all__ = ["Hook", "NoticeSettings", "Notifier"]
