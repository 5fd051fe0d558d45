"""Shared by all parts: names, the failure type, HTTP calls, and progress output."""

import json
import pathlib
import sys
import time
import urllib.error
import urllib.request

PACKAGE = pathlib.Path(__file__).resolve().parent
ROOT = PACKAGE.parent.parent
START_TIMEOUT_S = 60
# The measured account and its credentials: a candidate must add them, the caller never sends them.
ACCOUNT = "bench"
SESSION_TOKEN = "session-token-of-the-creator"
USER_ID = "1"
USER_AGENT = "creator's browser"
READ_COST = 1
WRITE_COST = 2
KEYS = 50
CREDITS = 1_000_000_000_000
# The credits of the second customer, few enough to run out.
FEW_CREDITS = 5

READ = "users/me"
WRITE = "lists"
WRITE_BODY = '{"name":"people who were here first"}'
# The paths at which the platform responds with the headers it received, and with 1 GiB.
ECHO = "echo"
LARGE = "large"


class Failure(Exception):
    """The measurement failed."""


def check(condition, message):
    """Raises a failure unless the condition holds."""
    if not condition:
        raise Failure(message)


def say(text):
    """Prints progress."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def native(path):
    """The path of a native call of the measured account."""
    return f"/v1/{ACCOUNT}/native/{path}"


def ask(url, key=None, body=None, method=None):
    """Makes one request; returns status and body, whatever the status."""
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
    """Makes one request that must succeed; returns its body."""
    status, answer = ask(url, key, body)
    check(200 <= status < 300, f"{url} responded {status}: {answer[:500]!r}")
    return answer


def wait_for(url, process, key=None, pause_s=0.02):
    """Waits until there is any response from this URL."""
    begun = time.monotonic()
    while time.monotonic() - begun < START_TIMEOUT_S:
        check(process.poll() is None, f"the program for {url} ended at its start")
        try:
            return ask(url, key)
        except OSError:
            time.sleep(pause_s)
    raise Failure(f"no response from {url}")
