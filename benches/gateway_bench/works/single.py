"""One node by itself: a response of 1 GiB, the time to its first response, memory at rest."""

import http.client
import statistics
import time
import urllib.parse

from .. import machine
from ..common import LARGE, READ, check, native, say, wait_for
from ..section import Section, figure
from ..seed import Amount, seed_sqlite
from ..upstream import LARGE_BYTES

PIECE = 2**20
STARTS = 11
IDLE_AFTER_S = 2


def _fetch(candidate):
    """Reads the large response; returns seconds and CPU seconds."""
    address = urllib.parse.urlsplit(candidate.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    before, begun = machine.cpu_of(candidate.roots), time.monotonic()
    connection.request("GET", native(LARGE), headers={"X-API-Key": candidate.keys[0]})
    answer = connection.getresponse()
    check(answer.status == 200, f"{candidate.name} responded {answer.status} to the large request")
    buffer, got = memoryview(bytearray(PIECE)), 0
    while count := answer.readinto(buffer):
        got += count
    connection.close()
    check(got == LARGE_BYTES, f"{candidate.name} returned {got} of {LARGE_BYTES} bytes")
    return time.monotonic() - begun, machine.cpu_of(candidate.roots) - before


def measure_large(candidates, stage):
    """A response of 1 GiB in alternating rounds; memory is the growth over the state before."""
    say(f"a response of 1 GiB: {len(candidates)} candidates × {stage.rounds} rounds, about 1 s each")
    times = {candidate.name: [] for candidate in candidates}
    growth = dict.fromkeys(times, 0.0)
    for _ in range(stage.rounds):
        for candidate in candidates:
            before = machine.resident_mib(machine.family(candidate.roots))
            with machine.peak_memory(candidate.roots) as peak:
                times[candidate.name].append(_fetch(candidate))
            growth[candidate.name] = max(growth[candidate.name], peak[0] - before)
    section = Section(
        "A response of 1 GiB",
        "One caller reads it as fast as it arrives.",
        ["candidate", "MiB/s", "MiB/s, × P1", "CPU s", "CPU, × P1", "memory grew by, MiB"],
    )
    first = times["P1"]
    for candidate in candidates:
        took = times[candidate.name]
        pairs = list(zip(took, first, strict=True))
        section.rows.append(
            [
                f"{candidate.name}: {candidate.title}",
                f"{1024 / statistics.median(seconds for seconds, _ in took):,.0f}",
                figure(statistics.median(other[0] / mine[0] for mine, other in pairs)),
                figure(statistics.median(cpu for _, cpu in took)),
                figure(statistics.median(mine[1] / max(other[1], 0.01) for mine, other in pairs)),
                figure(growth[candidate.name]),
            ]
        )
    if "SQLite" in growth:
        section.goals["large"] = growth["SQLite"]
    return section


def measure_start(gateway, key):
    """Starts a node of an existing database repeatedly; it has been started before, so the binary
    is in memory."""
    gateway.stop()
    amount = Amount(customers=1_000, calls=100_000)
    seed_sqlite(gateway, amount)
    say(f"{STARTS} starts of a node")
    health, calls, idle = [], [], []
    for _ in range(STARTS):
        begun = time.monotonic()
        gateway.spawn()
        wait_for(f"{gateway.url}/health", gateway.process, pause_s=0.002)
        health.append((time.monotonic() - begun) * 1000)
        status, _ = wait_for(f"{gateway.url}{native(READ)}", gateway.process, key)
        calls.append((time.monotonic() - begun) * 1000)
        check(status == 200, f"the first call after a start got {status}")
        time.sleep(IDLE_AFTER_S)
        idle.append(machine.resident_mib({gateway.process.pid}))
        gateway.stop()
    section = Section(
        "Start and rest",
        f"SQLite with {amount.customers:,} customers and {amount.calls:,} calls in the database; {STARTS} starts, medians."
        f" Memory at rest is taken {IDLE_AFTER_S} s after the first call.",
        ["start to", "ms, median", "ms, worst", "resident MiB"],
    )
    section.rows = [
        ["first response (`/health`)", figure(statistics.median(health)), figure(max(health)), ""],
        ["first metered call", figure(statistics.median(calls)), figure(max(calls)), figure(statistics.median(idle))],
    ]
    section.goals = {"start": statistics.median(calls), "idle": statistics.median(idle)}
    return section
