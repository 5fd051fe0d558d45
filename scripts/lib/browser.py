"""The browser of the tests of pages: Chromium, installed from the system's packages if missing."""

import os
import shutil
import subprocess
import sys

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
