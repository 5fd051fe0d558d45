"""A gateway in Node: Fastify and Redis doing the gateway's job."""

import pathlib
import shutil
import subprocess

from ... import machine
from ...candidate import Candidate
from ...common import ROOT, say, wait_for
from ..redis_books import SPEND_SCRIPT, start_redis

HERE = pathlib.Path(__file__).resolve().parent
# Node looks for packages beside the program, so both go to the build folder.
HOME = ROOT / "target" / "benches" / "fastify"


def _install():
    """Installs the packages that server.mjs needs, once for each state of package.json."""
    wanted = (HERE / "package.json").read_text()
    done = HOME / "installed"
    HOME.mkdir(parents=True, exist_ok=True)
    if not done.exists() or done.read_text() != wanted:
        say("installing Fastify and its two helpers with npm")
        shutil.copy(HERE / "package.json", HOME / "package.json")
        quiet = ["--silent", "--no-audit", "--no-fund", "--no-package-lock"]
        subprocess.run(["npm", "install", *quiet], cwd=HOME, check=True, stdin=subprocess.DEVNULL, timeout=300)
        done.write_text(wanted)
    shutil.copy(HERE / "server.mjs", HOME / "server.mjs")


def start_fastify(folder, platform):
    """Two processes of Node; Redis syncs to the disk every second."""
    _install()
    redis = start_redis(folder, "redis-fastify", "everysec")
    port = machine.free_port()
    environment = {
        "PORT": str(port),
        "REDIS_PORT": str(redis.port),
        "PLATFORM": platform.url,
        "SPEND_SCRIPT": str(SPEND_SCRIPT),
        "PROCESSES": "2",
        "NODE_ENV": "production",
    }
    process = machine.start(["node", HOME / "server.mjs"], folder / "fastify.log", environment)
    url = f"http://127.0.0.1:{port}"
    wait_for(f"{url}/", process)
    title = "Fastify + Redis, 2 processes, to the disk every second"
    return Candidate("Fastify", title, url, frozenset({process.pid, redis.pid}), redis.keys, redis.books())
