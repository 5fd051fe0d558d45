"""The load: wrk with alternating keys, at full speed or with pauses, and its cost for the
candidate."""

import dataclasses
import os
import re
import subprocess

from . import machine
from .common import READ, WRITE, WRITE_BODY, check, native

TIMEOUT_S = 30

LUA = """
local keys = { %(keys)s }
local body = %(body)s
local pause_ms = %(pause_ms)d
local requests = {}
local place = 0
function init(arguments)
  math.randomseed(os.time())
  for at, key in ipairs(keys) do
    local headers = { ["X-API-Key"] = key }
    if body then headers["Content-Type"] = "application/json" end
    requests[at] = wrk.format(body and "POST" or "GET", nil, headers, body)
  end
end
function request()
  place = place %% #requests + 1
  return requests[place]
end
if pause_ms > 0 then
  function delay()
    return math.random(0, 2 * pause_ms)
  end
end
function done(summary, latency, _)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format("RESULT %%d %%d %%d %%d %%d %%d\\n", summary.requests, summary.duration, failed,
    errors.status, latency:percentile(50), latency:percentile(99)))
end
"""


@dataclasses.dataclass(frozen=True)
class Load:
    """The requests. A pause is the average time for which each connection waits between two
    requests."""

    name: str
    connections: int
    seconds: float
    write: bool = False
    pause_ms: int = 0
    # Whether a refused or failed request in a calm round ends the measurement.
    strict: bool = True


@dataclasses.dataclass(frozen=True)
class Round:
    """The results of one candidate in one round."""

    requests: int
    per_second: float
    cpu_ms: float
    p50_ms: float
    p99_ms: float
    # Requests without a response, and those with a status of 400 and above.
    failed: int
    refused: int
    # The share of the machine that unrelated processes used.
    foreign: float
    peak_mib: float


def measure(candidate, load, folder, outside, urls=None):
    """One round; with several URLs, each gets this number of connections."""
    urls = urls or [candidate.url]
    path = native(WRITE if load.write else READ)
    script = folder / "wrk.lua"
    script.write_text(
        LUA
        % {
            "keys": ", ".join(f'"{key}"' for key in candidate.keys),
            "body": f"'{WRITE_BODY}'" if load.write else "nil",
            "pause_ms": load.pause_ms,
        }
    )
    threads = 2 if len(urls) == 1 else 1
    commands = [
        ["wrk", f"-t{threads}", f"-c{load.connections}", f"-d{load.seconds}s"]
        + ["--timeout", f"{TIMEOUT_S}s", "-s", str(script), url + path]
        for url in urls
    ]
    ours = {os.getpid()} | outside
    busy, could, before, all_before = *machine.machine_cpu(), machine.cpu_of(candidate.roots), machine.cpu_of(ours)
    with machine.peak_memory(candidate.roots) as peak:
        said = _run(commands, load.seconds)
    busy_after, could_after = machine.machine_cpu()
    cpu = machine.cpu_of(candidate.roots) - before
    foreign = busy_after - busy - (machine.cpu_of(ours) - all_before)
    results = [_read(text) for text in said]
    requests, failed, refused = (sum(result[place] for result in results) for place in (0, 2, 3))
    check(requests > 0 or not load.strict, f"{candidate.name}, {load.name}: there was no response")
    return Round(
        requests=requests,
        per_second=sum(result[0] / result[1] * 1e6 for result in results),
        cpu_ms=cpu / max(requests, 1) * 1e6,
        # With several URLs: that of the slowest one.
        p50_ms=max(result[4] for result in results) / 1000,
        p99_ms=max(result[5] for result in results) / 1000,
        failed=failed,
        refused=refused,
        foreign=max(0.0, foreign / (could_after - could)),
        peak_mib=peak[0],
    )


def _run(commands, seconds):
    running = [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command in commands
    ]
    try:
        return [process.communicate(timeout=seconds + 2 * TIMEOUT_S)[0] for process in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()


def _read(text):
    found = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)", text)
    check(found, f"wrk: {text}")
    return tuple(map(int, found.groups()))
