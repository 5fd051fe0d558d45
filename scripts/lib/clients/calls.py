"""Calls with generated clients: `service` for the service's own routes, `platform` for those of
platform_gamma. Type-checked and run by scripts/client-test."""

import io
import sys

import platform_client.models as platform_models
import service_client.models as service_models
from platform_client import AuthenticatedClient as PlatformClient
from platform_client.api.lists import post_user_self_id_user_lists
from platform_client.api.native import upload_media
from platform_client.api.shorthands import get_me, get_subscribers
from platform_client.types import File
from service_client import AuthenticatedClient as ServiceClient
from service_client.api.native import get_native
from service_client.api.usage import get_daily_usage

IMAGE = b"\x89PNG\r\n\x1a\n" + bytes(64)


def expect(condition: bool, message: object) -> None:
    if not condition:
        sys.exit(f"calls.py: {message}")


class Counter:
    """Counts the responses to the clients' calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.options: dict[str, object] = {"event_hooks": {"response": [self.count]}}

    def count(self, _response: object) -> None:
        self.calls += 1


def rows(answer: object) -> list[object]:
    expect(isinstance(answer, list), f"not a list: {answer}")
    return answer if isinstance(answer, list) else []


def read_and_write(client: PlatformClient, account: str) -> None:
    me = get_me.sync_detailed(account, client=client)
    expect(me.status_code == 200 and me.headers["X-Credits-Cost"] == "1", me)
    expect(isinstance(me.parsed, platform_models.GetMeResponse200), me)
    own = me.parsed["_id"] if isinstance(me.parsed, platform_models.GetMeResponse200) else ""
    made = post_user_self_id_user_lists.sync_detailed(
        account, own, client=client, body={"name": "Made by a client"}, idempotency_key="clients-python-1"
    )
    expect(made.status_code in (200, 201) and made.headers["X-Credits-Cost"] == "2", made)


def page_by_page(client: PlatformClient, account: str) -> None:
    seen: list[object] = []
    for page in range(3):
        answer = get_subscribers.sync_detailed(account, client=client, limit="50", offset=str(50 * page))
        expect(answer.status_code == 200, answer)
        seen += rows(answer.parsed)
    expect(len(seen) == 150, f"{len(seen)} rows")


def upload(client: PlatformClient, account: str) -> None:
    form = platform_models.UploadMediaBody(
        file=File(payload=io.BytesIO(IMAGE), file_name="picture.png", mime_type="image/png"),
        description="From a generated client",
    )
    answer = upload_media.sync_detailed(account, client=client, body=form)
    expect(answer.status_code in (200, 201), answer)


def errors(client: PlatformClient, account: str) -> None:
    """Both kinds of errors have their types."""
    ours = get_me.sync_detailed("nobody", client=client)
    expect(isinstance(ours.parsed, platform_models.Problem), ours)
    if isinstance(ours.parsed, platform_models.Problem):
        expect(ours.parsed.code == "account_not_found" and ours.parsed.status == 404, ours)
    theirs = post_user_self_id_user_lists.sync_detailed(account, "somebody", client=client, body={"name": "x"})
    expect(theirs.headers["X-Error-Source"] == "platform", theirs)
    expect(not isinstance(theirs.parsed, platform_models.Problem), theirs)


def service(client: ServiceClient, account: str) -> None:
    usage = get_daily_usage.sync(client=client, days=1)
    expect(isinstance(usage, service_models.DailyUsage), usage)
    # A path with slashes, which the client encodes.
    answer = get_native.sync_detailed(account, "chats/nobody/messages", client=client)
    expect(answer.headers["X-Route"] == "GET chats/{chat_id}/messages", answer)
    unknown = get_native.sync_detailed(account, "users/list", client=client)
    expect(unknown.status_code == 400 and unknown.headers["X-Error-Source"] == "platform", unknown)


def main() -> None:
    base_url, key, gamma, alpha = sys.argv[1:]
    counter = Counter()
    platform = PlatformClient(base_url=base_url, token=key, httpx_args=counter.options)
    read_and_write(platform, gamma)
    page_by_page(platform, gamma)
    upload(platform, gamma)
    errors(platform, gamma)
    service(ServiceClient(base_url=base_url, token=key, httpx_args=counter.options), alpha)
    print(f"calls: {counter.calls}")


main()
