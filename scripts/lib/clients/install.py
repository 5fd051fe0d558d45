"""Installs the generators of clients and what checks their output, pinned, below the build
folder."""

import fcntl
import filecmp
import os
import pathlib
import shutil
import subprocess
import sys
import time

from processes import check

HERE = pathlib.Path(__file__).resolve().parent
WHEELS = HERE.parent.parent / "client-test.txt"
LOCK = HERE / "package-lock.json"
# 30 MB of documents take seconds.
VALIDATION_TIMEOUT_S = 60


def _target():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent.parent / "target"))
    target.mkdir(parents=True, exist_ok=True)
    return target.resolve()


def python_programs():
    """The folder with the programs of the Python environment."""
    folder = _target() / "client-test"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = folder / "installed.txt"
        if not installed.exists() or not filecmp.cmp(WHEELS, installed, shallow=False):
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, stdout=sys.stderr)
            pip = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "5"]
            pinned = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement", WHEELS]
            subprocess.run([*pip, *pinned], check=True, stdout=sys.stderr)
            shutil.copyfile(WHEELS, installed)
    return folder / "bin"


def node_modules():
    """The folder with the packages for Node."""
    folder = _target() / "client-node"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = folder / "installed.json"
        if not installed.exists() or not filecmp.cmp(LOCK, installed, shallow=False):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copyfile(HERE / name, folder / name)
            quiet = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run(["npm", "ci", *quiet], check=True, cwd=folder, stdout=sys.stderr)
            shutil.copyfile(LOCK, installed)
    return folder / "node_modules"


def validate(programs, documents):
    """Checks documents (`validation.py`); returns how long that took. Problems are a `Failure`."""
    started = time.monotonic()
    done = subprocess.run(
        [programs / "python", HERE / "validation.py", *documents],
        capture_output=True, text=True, timeout=VALIDATION_TIMEOUT_S, check=False,
    )
    check(done.returncode == 0, f"documents are wrong:\n{done.stdout}{done.stderr}")
    return time.monotonic() - started
