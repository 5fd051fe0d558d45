"""Installs the generators of clients and what checks their output, pinned, below the build
folder."""

import pathlib
import subprocess
import time

import environments
from processes import check

HERE = pathlib.Path(__file__).resolve().parent
WHEELS = HERE.parent.parent / "client-test.txt"
# 30 MB of documents take seconds; only what hangs takes so long.
VALIDATION_TIMEOUT_S = 1_800


def python_programs():
    """The folder with the programs of the Python environment."""
    return environments.python("client-test", WHEELS)


def node_modules():
    """The folder with the packages for Node."""
    return environments.node("client-node", HERE)


def validate(programs, documents):
    """Checks documents (`validation.py`), of which there must be some; returns how long that took. Problems are a `Failure`."""
    check(documents, "there is no document to check")
    started = time.monotonic()
    done = subprocess.run(
        [programs / "python", HERE / "validation.py", *documents],
        capture_output=True, text=True, timeout=VALIDATION_TIMEOUT_S, check=False,
    )
    check(done.returncode == 0, f"documents are wrong:\n{done.stdout}{done.stderr}")
    return time.monotonic() - started
