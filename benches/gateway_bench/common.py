"""What all parts share: names, the one kind of failure, calls over HTTP, progress for whoever waits."""

import json
import pathlib
import sys
import time
import urllib.error
import urllib.request

PACKAGE = pathlib.Path(__file__).resolve().parent
ROOT = PACKAGE.parent.parent
START_TIMEOUT_S = 60
# The account that is called, and its credentials: a candidate must add them, the caller never sends them.
ACCOUNT = "bench"
SESSION_TOKEN = "session-token-of-the-creator"
USER_ID = "1"
USER_AGENT = "creator's browser"
READ_COST = 1
WRITE_COST = 2
KEYS = 50
CREDITS = 1_000_000_000_000
# What the second customer has, so that it can be seen running out.
FEW_CREDITS = 5

READ = "users/me"
WRITE = "lists"
WRITE_BODY = '{"name":"people who were here first"}'
# What the platform answers with the headers it saw, and with 1 GiB.
ECHO = "echo"
LARGE = "large"


class Failure(Exception):
    """The measurement could not be taken."""


def check(condition, message):
    """Refuses to go on unless the condition holds."""
    if not condition:
        raise Failure(message)


def say(text):
    """Progress: what runs now."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def native(path):
    """The path of a native call of the measured account."""
    return f"/v1/{ACCOUNT}/native/{path}"


def ask(url, key=None, body=None, method=None):
    """One request; gives status and body, whatever the status is."""
    headers = {"X-API-Key": key} if key else {}
    data = None
    if body is not None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        headers["Content-Type"] = "application/json"
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read()


def call(url, key=None, body=None):
    """One request that must succeed; gives its body."""
    status, answer = ask(url, key, body)
    check(200 <= status < 300, f"{url} answered {status}: {answer[:500]!r}")
    return answer


def wait_for(url, process, key=None, pause_s=0.02):
    """Waits until something answers there at all."""
    begun = time.monotonic()
    while time.monotonic() - begun < START_TIMEOUT_S:
        check(process.poll() is None, f"what should answer at {url} ended at its start")
        try:
            return ask(url, key)
        except OSError:
            time.sleep(pause_s)
    raise Failure(f"nothing answers at {url}")
