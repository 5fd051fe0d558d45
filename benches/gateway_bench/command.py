"""The command: starts the candidates, measures them, writes the results, and stops everything it
started."""

import os
import pathlib
import platform as system
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from . import machine, report
from .chart import draw
from .checks import check_work
from .common import KEYS, ROOT, Failure, say
from .gateway import POSTGRES_SCRIPT, POSTGRES_VARIABLE, Database, Gateway, start_gateway
from .options import WORKS, read_options
from .peers.bare import start_haproxy, start_nginx
from .peers.fastify import start_fastify
from .peers.lua import start_lua
from .rounds import FOREIGN_SHARE_MAX, Stage
from .upstream import LUA_PACKAGES, answer_body, start_platform
from .works.growth import measure_growth
from .works.nodes import NODES, measure_nodes
from .works.single import measure_large, measure_start
from .works.slow import measure_slow
from .works.throughput import measure_throughput

PEER_STARTERS = {
    "haproxy": start_haproxy,
    "p3": lambda folder, platform: start_lua(folder, platform, "everysec"),
    "p3dur": lambda folder, platform: start_lua(folder, platform, "always"),
    "fastify": start_fastify,
}
PACKAGES = {
    "haproxy": [("haproxy", "haproxy")],
    "p3": [("redis-server", "redis-server"), *LUA_PACKAGES],
    "p3dur": [("redis-server", "redis-server"), *LUA_PACKAGES],
    "fastify": [("redis-server", "redis-server"), ("npm", "npm")],
}
SLOW_PEERS = ("p3dur",)


class Bench:
    """One run."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.database = Database() if options.database != "sqlite" else None
        outside = frozenset({self.database.pid} if self.database else ())
        self.stage = Stage(folder, options.rounds, options.seconds, options.repeats, outside)
        self.platform = start_platform(folder)
        self.made = 0

    def gateway(self, database, binary=None, folder=None, platform=None, **same):
        """A node with its own database, or with a shared one (`same`)."""
        self.made += 1
        home = (folder or self.folder) / f"gateway-{self.made}"
        binary = binary or self.options.binaries[0][1]
        if database == "SQLite":
            same["database_url"] = f"sqlite:{home}/gateway.db"
        else:
            same.setdefault("database_url", None)
            same["database_url"] = same["database_url"] or self.database.create(f"db{self.made}")
            same["server_pid"] = self.database.pid
        return Gateway(binary, home, platform or self.platform, **same)

    def databases(self):
        """The databases to measure."""
        return {"sqlite": ["SQLite"], "postgres": ["PostgreSQL"]}.get(self.options.database, ["SQLite", "PostgreSQL"])

    def ours(self, folder=None, platform=None):
        """Our candidates: every binary on every database."""
        candidates = []
        for label, binary in self.options.binaries:
            for database in self.databases():
                gateway = self.gateway(database, binary, folder, platform)
                title = f"creator-gateway {label}".strip()
                name = f"{database} {label}".strip()
                candidates.append(start_gateway(name, title, gateway))
        return candidates

    def one(self, database):
        """A node of the first binary: gateway and candidate."""
        gateway = self.gateway(database)
        return gateway, start_gateway(database, "creator-gateway", gateway)

    def line_up(self):
        """All candidates for reads and writes, each after its work was checked."""
        if not hasattr(self, "_line_up"):
            candidates = [self.platform] if "p0" in self.options.peers else []
            candidates.append(start_nginx(self.folder, self.platform))
            for name, starter in PEER_STARTERS.items():
                if name in self.options.peers:
                    candidates.append(starter(self.folder, self.platform))
            candidates += self.ours()
            for candidate in candidates:
                check_work(candidate)
            self._line_up = candidates
        return self._line_up

    # Works, by the names of the command line.

    def reads(self):
        return measure_throughput(self.line_up(), self.stage, self.options.connections, write=False)

    def writes(self):
        return measure_throughput(self.line_up(), self.stage, self.options.connections, write=True)

    def slow(self):
        starters = [start_nginx]
        starters += [PEER_STARTERS[name] for name in SLOW_PEERS if name in self.options.peers]
        for database in self.databases():
            starters.append(
                lambda folder, platform, database=database: start_gateway(
                    database, "creator-gateway", self.gateway(database, folder=folder, platform=platform)
                )
            )
        return measure_slow(starters, self.folder, self.stage, self.options.rate)

    def large(self):
        return measure_large([start_nginx(self._sub("large"), self.platform), self.one("SQLite")[1]], self.stage)

    def start(self):
        gateway, candidate = self.one("SQLite")
        return measure_start(gateway, candidate.keys[0])

    def nodes(self):
        gateway, candidate = self.one("PostgreSQL")
        check_work(candidate)
        gateways = [gateway]
        for _ in range(1, NODES):
            same = {"database_url": gateway.database_url, "master_key": gateway.master_key}
            gateways.append(self.gateway("PostgreSQL", **same))
            gateways[-1].serve()
        return measure_nodes(gateways, candidate, self.stage)

    def growth(self):
        pairs = []
        for title in ("the small one", "100 times more"):
            gateway = self.gateway("SQLite")
            pairs.append((gateway, start_gateway(title, title, gateway)))
        return measure_growth(pairs, self.stage, self.options.calls)

    def _sub(self, name):
        folder = self.folder / name
        folder.mkdir()
        folder.chmod(0o755)
        return folder

    def conditions(self):
        """When, where and how it was measured: the lines below each table."""
        options = self.options
        model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
        commit = said("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
        builds = [f"{label} {said(binary, '--version')}, {build_of(binary)}".strip() for label, binary in options.binaries]
        tools = [version_of("nginx"), version_of("wrk")]
        if self.database:
            tools.append(said("psql", "--version").removeprefix("psql (").replace(")", "", 1))
        for name, program in (("p3", "redis-server"), ("haproxy", "haproxy"), ("fastify", "node")):
            if name in options.peers and shutil.which(program):
                tools.append(version_of(program))
        return [
            f"{time.strftime('%Y-%m-%d')}; {'; '.join(builds)}, of commit {options.commit or commit}; "
            f"this script at commit {commit}",
            f"{os.cpu_count()} cores, {model.group(1) if model else system.processor()}, Linux {system.release()}; "
            "the platform, the load and all candidates share the cores",
            "; ".join(tools),
            f"{options.rounds} round(s) of {options.seconds} s in turns, {KEYS} keys, "
            f"responses of {len(answer_body())} bytes; a round during which other processes took more than "
            f"{FOREIGN_SHARE_MAX:.0%} of the cores was repeated "
            f"up to {options.repeats} times; others' CPU is of the worst round that counted",
        ]


def said(*arguments):
    """The first line of a program's output."""
    done = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True, check=False)
    return ((done.stdout or done.stderr).strip().splitlines() or [""])[0]


def version_of(program):
    """A program and its version, without the rest of its output."""
    found = re.search(r"v?=?(\d+\.[^\s]+)", said(program, "-v"))
    return f"{program} {found.group(1) if found else ''}".strip()


def build_of(binary):
    """How a binary was built, judging by its folder."""
    if "debug" in binary.parts:
        return "debug build: figures mean nothing"
    if "optimized" in binary.parts:
        return "build by scripts/build-optimized"
    return "build of the profile dist" if "dist" in binary.parts else "build of the profile release"


def run(options, folder):
    """All requested works; prints the tables, and publishes them if requested."""
    bench = Bench(options, folder)
    sections = {}
    for name in options.only:
        if name == "nodes" and not bench.database:
            say("nodes: skipped, there is no PostgreSQL")
            continue
        say(f"== {name} ({list(options.only).index(name) + 1} of {len(options.only)})")
        begun = time.monotonic()
        section = getattr(bench, name)()
        section.conditions = bench.conditions()
        sections[name] = section
        say(f"{name} took {time.monotonic() - begun:.0f} s")
    print(report.render(sections))
    if options.publish:
        everything = {**report.known_sections(), **sections}
        everything = {name: everything[name] for name in WORKS if name in everything}
        charts = {title: bars for section in everything.values() for title, bars in section.bars.items()}
        report.save(everything)
        (report.DOCUMENT.parent / report.CHART).write_text(draw(charts))
        report.publish(report.render(everything, report.CHART))
        say(f"written: {report.DOCUMENT.relative_to(ROOT)}, {report.CHART} and {report.DATA.name} beside it")


def end(number, _frame):
    """On a signal, everything that was started is stopped first."""
    sys.exit(128 + number)


def main(description):
    options = read_options(description)
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(name, end)
    os.environ["no_proxy"] = "127.0.0.1,localhost"
    files = machine.raise_file_limit()
    if "slow" in options.only and files < machine.FILES_WANTED:
        sys.exit(f"benches/gateway: slow needs ulimit -n {machine.FILES_WANTED}, not {files}")
    machine.install([("wrk", "wrk"), ("nginx", "nginx")])
    if "slow" in options.only:
        machine.install(LUA_PACKAGES)
    for name in options.peers:
        machine.install(PACKAGES.get(name, []))
    if options.database != "sqlite" and POSTGRES_VARIABLE not in os.environ:
        os.execv(str(POSTGRES_SCRIPT), [str(POSTGRES_SCRIPT), "run", "--", sys.executable, *sys.orig_argv[1:]])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="creator-gateway-bench."))
    # nginx workers run as `nobody` if the script runs as root.
    folder.chmod(0o755)
    kept = False
    try:
        run(options, folder)
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        kept = True
        sys.exit(f"benches/gateway: {failure}; logs are in {folder}")
    finally:
        machine.stop_all()
        if not kept:
            shutil.rmtree(folder)
