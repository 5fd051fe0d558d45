"""Environments for Python and Node below the build folder, with pinned packages."""

import fcntl
import filecmp
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def python(name, wheels):
    """The folder with the programs of an environment that has exactly the packages of this list."""

    def make(folder):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, stdout=sys.stderr)
        pip = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "5"]
        pinned = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement", wheels]
        subprocess.run([*pip, *pinned], check=True, stdout=sys.stderr)

    return _made(name, wheels, make) / "bin"


def node(name, source):
    """The folder with the packages that `package.json` and its lock in the source folder name."""

    def make(folder):
        folder.mkdir()
        for file in ("package.json", "package-lock.json"):
            shutil.copyfile(source / file, folder / file)
        quiet = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run(["npm", "ci", *quiet], check=True, cwd=folder, stdout=sys.stderr)

    return _made(name, source / "package-lock.json", make) / "node_modules"


def _made(name, pinned, make):
    """The folder of this name, made again when what is pinned has changed. One process makes it at a time."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    target.mkdir(parents=True, exist_ok=True)
    folder = target.resolve() / name
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = folder / f"installed{pinned.suffix}"
        if not installed.exists() or not filecmp.cmp(pinned, installed, shallow=False):
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            shutil.copyfile(pinned, installed)
    return folder
