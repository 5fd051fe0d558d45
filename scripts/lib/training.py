"""Calls of all kinds at full speed, to train an optimized build."""

import json
import re
import subprocess

from lib.load import OPERATIONS
from lib.processes import WAIT_S, Failure, Service, check, shared_settings
from lib.trial import Trial

CONNECTIONS = (256, 32)
# Each read is called this often, each write once.
READS = 5
# Only a service that hangs takes so long.
ANSWER_TIMEOUT_S = 120
# How often calls are made again, each time for twice as long, if none was carried out.
ATTEMPTS = 6

LUA = """
local requests = { %s }
local place, formatted = 0, {}
function init()
  for at, request in ipairs(requests) do
    local headers = { ["X-API-Key"] = "%s" }
    if request[3] then headers["Content-Type"] = "application/json" end
    formatted[at] = wrk.format(request[1], request[2], headers, request[3])
  end
end
function request()
  place = place %% #formatted + 1
  return formatted[place]
end
function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format("RESULT %%d %%d %%d\\n", summary.requests, failed, errors.status))
end
"""


class Training(Trial):
    """The service on one database, called on all platforms. It is ended as Ctrl-C does, so that it
    can write its profile."""

    def carry_out(self):
        settings = shared_settings(self.books.url)
        settings["http.limits"] = {"calls_per_account_max": 16_000, "calls_per_customer_max": 16_000}
        service = Service(
            self.options.binary,
            self.folder,
            self.platforms,
            self.books.url,
            settings=settings,
            environment=self.options.environment,
        )
        self.services.append(service)
        service.start()
        service.wait_for_health()
        self.process_id = service.child.process.pid
        _, key = service.prepare(self.platforms)
        script = self.folder / "calls.lua"
        script.write_text(LUA % (", ".join(self._calls()), key))
        self.calls = sum(self._train(service, script, connections) for connections in CONNECTIONS)
        service.verify(self.findings, "after the calls")
        self.stop_services()
        check(self.findings.is_clean(), "the ledger is inconsistent after the calls, or the service did not end well")

    def _calls(self):
        """All operations as Lua tables, mixed so that reads and writes of all platforms
        alternate."""
        reads, writes = [], []
        for platform, (paths, bodies) in OPERATIONS.items():
            account = self.platforms.accounts[platform]
            place = f"/v1/{account['creator_id']}/native/"
            reads += [_lua("GET", place + path.format(**account['auth'])) for path in paths]
            writes += [_lua("POST", place + path.format(**account['auth']), json.dumps(body)) for path, body in bodies]
        calls = reads * READS + writes
        self.random.shuffle(calls)
        return calls

    def checked(self):
        return {"databases": 1, "calls": self.calls}

    def _train(self, service, script, connections):
        """Makes calls for so many seconds, and for longer if a slow machine carries out none in that time; returns how many
        were carried out."""
        for attempt in range(ATTEMPTS):
            calls = self._call(service, script, connections, self.options.seconds * 2**attempt)
            if calls:
                return calls
        raise Failure(f"with {connections} connections not a single call was carried out")

    def _call(self, service, script, connections, seconds):
        """Makes calls; returns how many were carried out. A slow or busy machine may refuse others, which is no reason to end:
        what was carried out trains as well."""
        arguments = ["-t2", f"-c{connections}", f"-d{seconds}s", "--timeout", f"{ANSWER_TIMEOUT_S}s", "-s", str(script)]
        done = subprocess.run(
            ["wrk", *arguments, service.base_url],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds + 2 * ANSWER_TIMEOUT_S + WAIT_S,
        )
        found = re.search(r"RESULT (\d+) (\d+) (\d+)", done.stdout)
        check(found, f"wrk: {done.stdout}{done.stderr}")
        calls, failed, refused = map(int, found.groups())
        beside = f", {refused:,} refused, {failed:,} without a response" if refused + failed else ""
        print(f"  {self.books.name}, {connections} connections: {calls:,} calls in {seconds} s{beside}", flush=True)
        return calls - refused


def _lua(method, path, body=None):
    parts = [json.dumps(part) for part in (method, path, body) if part is not None]
    return "{ " + ", ".join(parts) + " }"
