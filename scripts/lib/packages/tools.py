"""What checks packages: schemas below the build folder, and programs of the system's packages."""

import os
import pathlib
import shutil
import subprocess
import sys

import environments

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
WHEELS = HERE.parent.parent / "package-test.txt"


def target_folder():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    target.mkdir(parents=True, exist_ok=True)
    return target.resolve()


def schema_python():
    """A Python that has the schemas and what reads them."""
    return environments.python("package-test", WHEELS) / "python"


def _apt(*arguments, as_root=True, folder=None):
    prefix = ["sudo"] if as_root and os.geteuid() != 0 else []
    subprocess.run(
        [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", *arguments],
        check=True, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )


def promtool():
    """Prometheus' checker of rules. Its package would start a server: only the program is taken from it."""
    found = shutil.which("promtool")
    if found:
        return found
    folder = target_folder() / "promtool"
    program = folder / "usr/bin/promtool"
    if not program.exists():
        print("package-test: getting promtool from the system's packages", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            _apt("download", "prometheus", as_root=False, folder=folder)
        except subprocess.CalledProcessError:
            _apt("update")
            _apt("download", "prometheus", as_root=False, folder=folder)
        package = next(folder.glob("prometheus_*.deb"))
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
        package.unlink()
    return program


def systemd_analyze():
    found = shutil.which("systemd-analyze")
    if found is None:
        _apt("update")
        _apt("install", "-y", "--no-install-recommends", "systemd")
        found = shutil.which("systemd-analyze")
    return found
