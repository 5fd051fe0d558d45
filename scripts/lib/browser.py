"""The browser of the tests of pages: Chromium, installed from the system's packages if missing, and the walks in it."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

# Only a walk that hangs takes so long.
WALK_TIMEOUT_S = 7_200
NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium():
    """The path of the browser."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None and shutil.which("apt-get"):
        print("installing Chromium from the system's packages", file=sys.stderr)
        as_root = [] if os.geteuid() == 0 else ["sudo"]
        quiet = {"check": True, "stdin": subprocess.DEVNULL, "stdout": sys.stderr}
        subprocess.run([*as_root, "apt-get", "update", "-qq"], **quiet)
        subprocess.run([*as_root, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"], **quiet)
        found = shutil.which("chromium")
    if found is None:
        raise SystemExit("install Chromium so that it is in the PATH")
    return found


def walk(script, facts, modules, folder):
    """Runs a walk in the browser; returns how much of each kind it did, or None if it failed. A walk says at its end how much
    it did; one that says nothing has done nothing."""
    told = pathlib.Path(folder) / "walk.json"
    done = subprocess.run(
        ["node", script],
        input=json.dumps({**facts, "chromium": chromium(), "told": str(told)}),
        text=True,
        env={**os.environ, "NODE_PATH": str(modules)},
        timeout=WALK_TIMEOUT_S,
    )
    if done.returncode:
        return None
    return json.loads(told.read_text()) if told.exists() else {"steps": 0}
