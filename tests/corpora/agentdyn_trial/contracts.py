"""The contracts of AgentDyn's tools, written as each tool's owner would, from its name and parameters alone.

An owner asks of an argument: who gains by it, what is lost by it? That one must come from the user, or from where only the user's
own things stand. Texts, subjects and amounts are not asked for: limits on them are the work of rules. What only reads, or makes a
new folder, is let go on; `clear_cart` has no argument to tell by, so nothing but an approval can stop it.
"""

from __future__ import annotations

from corpora.agentdyn_trial.shelf import CONTENT, FILES, FLAG, NUMBER, TEXT, TEXT_OR_TEXTS, TEXTS, Shelf, maybe
from fourgates.catalog import Catalog, OnBreach

USER = frozenset({"user"})
OWN = frozenset({"user", "host"})
"""Named by the user, or a thing that the user has already: an order, a repository, an address of theirs."""
NAMED = frozenset({"user", "within", "host"})
"""An address or a folder that the user named, what lies beneath it, or the tool's own default."""
NOT_MADE_UP = frozenset({"user", "host", "result"})
"""One-time codes, credentials, ids of attachments: somebody must have given them."""
ONE_TIME_CODE = ({"otp": TEXT}, {"otp": NOT_MADE_UP}, OnBreach.REFUSE)
"""Nobody needs to be asked whether a made-up code may be tried."""
LOGIN = ({"username": TEXT, "credential": TEXT}, {"username": NOT_MADE_UP, "credential": NOT_MADE_UP}, OnBreach.REFUSE)


def make_catalog() -> Catalog:
    """All tools that the data's models were offered and called."""
    shelf = Shelf("agentdyn")
    for room in (_mail, _calendar, _bank, _files, _web, _github, _shopping):
        room(shelf)
    return shelf.catalog


def _mail(shelf: Shelf) -> None:
    for name in ("get_received_emails", "get_sent_emails", "get_unread_emails"):
        shelf.read(name)
    shelf.read("search_emails", {"query": TEXT, "sender": maybe(TEXT)})
    shelf.write(
        "send_email",
        {
            "recipients": TEXT_OR_TEXTS, "subject": TEXT, "body": TEXT, "attachments": maybe(FILES),
            "cc": maybe(TEXT_OR_TEXTS), "bcc": maybe(TEXT_OR_TEXTS),
        },
        {"recipients": OWN, "cc": OWN, "bcc": OWN},
    )  # fmt: skip
    shelf.destroy("delete_email", {"email_id": TEXT}, {"email_id": USER})


def _calendar(shelf: Shelf) -> None:
    # An event tells its participants what it is about, and the user what to do: it has the name that the user gave it.
    shelf.read("get_current_day", trusted=("*",))
    shelf.read("get_day_calendar_events", {"day": TEXT})
    shelf.read("search_calendar_events", {"query": TEXT, "date": maybe(TEXT)})
    shelf.write(
        "create_calendar_event",
        {
            "title": TEXT, "start_time": TEXT, "end_time": TEXT, "description": maybe(TEXT), "location": maybe(TEXT),
            "participants": maybe(TEXT_OR_TEXTS),
        },
        {"title": USER, "participants": OWN},
    )  # fmt: skip
    shelf.write(
        "reschedule_calendar_event",
        {"event_id": TEXT, "new_start_time": TEXT, "new_end_time": maybe(TEXT)},
        {"new_start_time": USER},
    )
    shelf.write("add_calendar_event_participants", {"event_id": TEXT, "participants": TEXT_OR_TEXTS}, {"participants": OWN})


def _bank(shelf: Shelf) -> None:
    shelf.read("get_balance", trusted=("*",))
    shelf.write("send_money", {"recipient": TEXT, "amount": NUMBER, "subject": TEXT, "date": TEXT}, {"recipient": OWN})
    shelf.write("verify_transaction", *ONE_TIME_CODE)


def _files(shelf: Shelf) -> None:
    shelf.read("list_directory", {"path": TEXT})
    shelf.read("read_file", {"path": TEXT})
    folder = {**TEXT, "default": "/downloads"}
    shelf.write("create_dir", {"path": TEXT})
    shelf.write("create_file", {"path": TEXT, "content": maybe(CONTENT)}, {"path": NAMED})
    shelf.write("copy_node", {"source_path": TEXT, "destination_path": TEXT}, {"destination_path": NAMED})
    shelf.write("move_node", {"source_path": TEXT, "destination_path": TEXT}, {"destination_path": NAMED})
    shelf.destroy("delete_node", {"path": TEXT}, {"path": USER})
    shelf.write("download_file_through_url", {"url": TEXT, "save_dir": folder}, {"url": NAMED, "save_dir": NAMED})
    shelf.write("download_file_through_id", {"file_id": TEXT, "save_dir": folder}, {"file_id": NOT_MADE_UP, "save_dir": NAMED})


def _web(shelf: Shelf) -> None:
    shelf.read("browse_webpage", {"url": TEXT})
    shelf.write("input_to_webpage", {"url": TEXT, "input_ids": TEXTS, "input_values": TEXTS}, {"url": NAMED})


def _github(shelf: Shelf) -> None:
    shelf.read("get_github_linked_unread_emails")
    shelf.read("get_github_linked_ssh_keys")
    shelf.read("git_get_linked_ssh_keys")
    shelf.read("get_github_account_user_information", {"username": maybe(TEXT), "email": maybe(TEXT)})
    shelf.read("get_github_repository_information", {"repo_name": TEXT})
    # Not the repository's own information: its collaborators are the word of whoever owns it.
    shelf.read("get_logged_in_github_user_information", trusted=("repository", "email", "username"))
    shelf.write("login_github_account", *LOGIN)
    shelf.write("verify_github_account", *ONE_TIME_CODE)
    shelf.write("git_star", {"repo_name": TEXT}, {"repo_name": OWN})
    shelf.write("git_unstar", {"repo_name": TEXT}, {"repo_name": OWN})
    shelf.write("git_issue", {"repo_name": TEXT, "title": TEXT, "comment_body": TEXT}, {"repo_name": OWN})
    shelf.write("git_create_repo", {"repo_name": TEXT}, {"repo_name": USER})
    shelf.destroy("git_delete_repo", {"repo_name": TEXT}, {"repo_name": USER})
    shelf.write("git_invite_collaborators", {"repo_name": TEXT, "collaborator_email": TEXT}, {"collaborator_email": USER})
    shelf.destroy(
        "git_transfer_repo_ownership",
        {"repo_name": TEXT, "new_owner_email": maybe(TEXT), "new_owner_username": maybe(TEXT)},
        {"new_owner_email": OWN, "new_owner_username": OWN},
    )
    shelf.write("git_add_ssh_key", {"ssh_key": TEXT}, {"ssh_key": USER})
    shelf.destroy("git_delete_ssh_key", {"ssh_key": TEXT}, {"ssh_key": USER})
    shelf.write("git_clone", {"repo_name": TEXT, "local_dir_path": maybe(TEXT)})
    shelf.write("git_pull", {"local_path": TEXT, "repo_name": maybe(TEXT), "overwrite_local": maybe(FLAG)})
    shelf.write("git_push", {"local_path": TEXT, "force": maybe(FLAG)}, {"local_path": NAMED | {"result:git_clone"}})


def _shopping(shelf: Shelf) -> None:
    for name in ("get_shopping_linked_received_emails", "get_shopping_linked_unread_emails", "cart_total"):
        shelf.read(name)
    # Listings are other people's texts; what the user has ordered or put into the cart is theirs.
    shelf.read("get_shopping_account_user_information", trusted=("Email", "Username"))
    shelf.read("view_available_discounts", trusted=("*",))
    shelf.read("view_cart", trusted=("*/product_id",))
    shelf.read("view_order_history", trusted=("*/order_id", "*/product_id"))
    shelf.read("get_invoice", {"order_id": TEXT})
    shelf.read(
        "search_product",
        {
            "product_name": maybe(TEXT), "product_id": maybe(TEXT), "category": maybe(TEXT), "brand": maybe(TEXT),
            **{name: maybe(NUMBER) for name in ("price", "price_min", "price_max", "rating_min", "rating_max")},
        },
    )  # fmt: skip
    shelf.write("login_shopping_account", *LOGIN)
    shelf.write("verify_shopping_account", *ONE_TIME_CODE)
    shelf.write("update_shopping_account_password", {"new_credential": TEXT}, {"new_credential": USER})
    shelf.write("cart_add_product", {"product_id": TEXT, "quantity": maybe(NUMBER)}, {"product_id": OWN})
    shelf.write("cart_remove_product", {"product_id": TEXT}, {"product_id": OWN})
    shelf.write("clear_cart")
    shelf.write(
        "checkout_selected_cart", {"product_ids": TEXT_OR_TEXTS, "discount_code": maybe(TEXT)},
        {"product_ids": OWN},
    )  # fmt: skip
    shelf.write("refund_order", {"order_id": TEXT}, {"order_id": OWN})
