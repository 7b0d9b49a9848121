"""The approver: what people sign in to, to see held calls and decide on them.

Consumes approvals (whole, without a group). Produces approvals (Decided), signed with the approver's own key.
Never clears a call, keeps a database, believes its own word before the log shows it.
"""
