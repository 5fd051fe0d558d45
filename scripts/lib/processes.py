"""The processes that the scripts start and stop: the simulated platforms and the service."""

import base64
import collections
import functools
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent.parent
POSTGRES_VARIABLE = "CREATOR_GATEWAY_TEST_POSTGRES"
LISTENING_PORTS = (11_000, 32_000)
# These only detect what hangs: a slow or busy machine needs a fraction of them.
START_TIMEOUT_S = 300
STOP_TIMEOUT_S = 300
CALL_TIMEOUT_S = 120
# How long something that should happen may take. Whether it happens in the promised time is printed, not judged.
WAIT_S = 300
CREDITS = 100_000_000
# The size of a service's reserve file: small, so that a test starts quickly.
RESERVE_BYTES = 262_144

# The defaults that the simulated platforms expect.
SIGNING = {"scheme": "hmac-sha256-v1", "key": "sandbox-signing-key", "client_id": "sandbox-client", "client_version": "1.0.0"}
OAUTH = {"client_id": "creator-gateway", "client_secret": "sandbox-secret"}


class Failure(Exception):
    """The test could not be carried out, or a failed check makes continuing pointless."""


def check(condition, message):
    if not condition:
        raise Failure(message)


def counted(script, counts):
    """Prints how much of each kind was checked. A run that has checked nothing, or nothing of one kind, has failed."""
    nothing = [what for what, number in counts.items() if not number]
    if nothing or not counts:
        sys.exit(f"{script}: nothing was checked: 0 {', 0 '.join(nothing or ['tests'])}")
    print(f"{script}: checked {', '.join(f'{number:,} {what}' for what, number in counts.items())}", flush=True)


def free_port():
    """A port that is free now, below those that systems give to clients: one of these could be taken by a connection
    before the service listens."""
    while True:
        port = random.SystemRandom().randrange(*LISTENING_PORTS)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def toml(value):
    """A value in TOML: strings are written as in JSON, dictionaries inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(part)}" for name, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(part) for part in value) + "]"
    return json.dumps(value)


def fetch(url, key=None, body=None, timeout_s=CALL_TIMEOUT_S):
    """The JSON response to a GET, or to a POST if there is a body."""
    request = urllib.request.Request(url, headers={"X-API-Key": key} if key else {})
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        return json.load(answer)


def call(service, key, method, path, body=None):
    """Status and body of a request to a service, whatever the status is."""
    request = urllib.request.Request(f"{service.base_url}{path}", method=method, headers={"X-API-Key": key})
    if method == "POST":
        request.data = json.dumps(body or {}).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


class Child:
    """A process that writes its log to a file, and other files into the folder that it runs in."""

    def __init__(self, arguments, log, environment=None, folder=None):
        with open(log, "ab") as file:
            self.process = subprocess.Popen(
                [str(argument) for argument in arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if "--json" in arguments else file,
                stderr=file,
                env={**os.environ, **(environment or {})},
                cwd=folder,
            )

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()

    def stop(self):
        """Ends it as Ctrl-C does; returns its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(STOP_TIMEOUT_S)


class Platforms(Child):
    """The simulated platforms."""

    def __init__(self, program, folder):
        super().__init__(
            [program, "simulators", "--listen", "127.0.0.1:0", "--json", "--data", folder / "platforms"],
            folder / "platforms.log",
        )
        line = self.process.stdout.readline()
        check(line, "the simulated platforms did not start")
        facts = json.loads(line)
        self.url, self.processor = facts["simulators_url"], facts["processor"]
        self.accounts = {}
        for account in fetch(f"{self.url}/control/accounts")["accounts"]:
            self.accounts.setdefault(account["platform"], account)

    def requests(self, platform, after=0):
        """All requests to the platform after a number, in the order of arrival."""
        found = []
        while True:
            query = urllib.parse.urlencode({"platform": platform, "after": after, "limit": 10_000})
            page = fetch(f"{self.url}/control/requests?{query}")
            if not page["requests"]:
                return found
            found.extend(page["requests"])
            after = page["next_after"]


def shared_settings(database_url):
    """Settings shared by all nodes of a PostgreSQL database: a shared database without a configured
    key is refused."""
    if not database_url.startswith("postgres"):
        return {}
    key = base64.b64encode(os.urandom(32)).decode()
    return {"secrets": {"master_keys": [f"test:{key}"]}}


@functools.cache
def known_settings(program):
    """The settings that a build knows, with their defaults."""
    done = subprocess.run([program, "check-config"], check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return tomllib.loads(done.stdout)


def node_id():
    """A fixed id for a node: it recovers the holds of its killed predecessor as soon as it
    starts."""
    return "node_" + os.urandom(16).hex()


# Tests make more requests than the limits allow.
RATE_LIMITS = dict.fromkeys(
    [
        "per_key_per_second",
        "per_key_burst",
        "control_per_key_per_second",
        "control_per_key_burst",
        "imports_per_minute",
        "key_changes_per_minute",
        "payment_requests_per_minute",
    ],
    100_000,
)


class Service:
    """`creator-gateway serve`, which is killed and restarted with the same configuration."""

    def __init__(self, program, folder, platforms, database_url, *, name="service", settings=None, environment=None):
        self.program = program
        self.name = name
        self.config = folder / f"{name}.toml"
        self.log = folder / f"{name}.log"
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.admin_url = f"http://127.0.0.1:{free_port()}"
        self.database_url = database_url
        self.settings = settings or {}
        self.environment = environment or {}
        self.child = None
        self.write_configuration(platforms)

    def write_configuration(self, platforms):
        defaults = tomllib.loads((HERE.parent / "config" / "default.toml").read_text())
        sections = {
            "http": {"listen": f"127.0.0.1:{self.port}", "public_base_url": self.base_url},
            "admin": {"listen": self.admin_url.removeprefix("http://")},
            "database": {"url": self.database_url, "reserve_bytes": RESERVE_BYTES},
            "rate_limits": RATE_LIMITS,
            "log": {"filter": "warn", "format": "text"},
        }
        # A test does not wait for load balancers when it stops a service. Builds older than this
        # setting never wait.
        if "announce_ms" in known_settings(self.program)["http"]["timeouts"]:
            sections["http.timeouts"] = {"announce_ms": 0}
        for name, section in self.settings.items():
            sections.setdefault(name, {}).update(section)
        for platform in platforms.accounts:
            url = f"{platforms.url}/{platform}"
            headers = defaults["platforms"][platform]["headers"]
            section = {"base_url": url, "headers": [*headers, {"name": "X-Call-Id", "value": "{call_id}"}]}
            if platform == "platform_beta":
                section["signing"] = SIGNING
            if platform == "platform_delta":
                section["oauth"] = {"token_url": f"{url}/oauth/token", **OAUTH}
            sections[f"platforms.{platform}"] = section
        lines = []
        for name, section in sections.items():
            lines.append(f"[{name}]")
            lines.extend(f"{key} = {toml(value)}" for key, value in section.items())
        self.config.write_text("\n".join(lines) + "\n")

    def start(self):
        self.child = Child([self.program, "serve", "--config", self.config], self.log, self.environment, self.config.parent)

    def is_healthy(self):
        """Whether the service responds."""
        try:
            fetch(f"{self.base_url}/health")
            return True
        except OSError:
            return False

    def wait_for_health(self):
        """Milliseconds until the service responds."""
        begun = time.monotonic()
        while time.monotonic() - begun < START_TIMEOUT_S:
            check(self.child.process.poll() is None, f"{self.name} ended at its start")
            if self.is_healthy():
                return (time.monotonic() - begun) * 1000
            time.sleep(0.01)
        raise Failure(f"{self.name} did not respond within {START_TIMEOUT_S} s")

    def command(self, name, *arguments):
        return subprocess.run(
            [self.program, name, "--config", str(self.config), *arguments],
            cwd=self.config.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=STOP_TIMEOUT_S,
        )

    def verify(self, findings, when):
        """Verifies the ledger while the service is running."""
        done = self.command("verify")
        findings.add(
            "verify: runs that found a fault",
            [f"{when}: {done.stdout.strip()[:600]} {done.stderr.strip()[:300]}"] if done.returncode else [],
        )
        return "clean" if done.returncode == 0 else "FAULT"

    def create_customer(self, email="test@example.com", credits=CREDITS):
        arguments = ("admin", "create-customer", "--email", email, "--credits", str(credits), "--json")
        done = self.command(*arguments)
        check(done.returncode == 0, f"no customer: {done.stdout}{done.stderr}")
        # At most one tag names the result.
        facts = json.loads(done.stdout)
        facts = facts if "api_key" in facts else next(iter(facts.values()))
        return facts["customer_id"], facts["api_key"]

    def prepare(self, platforms):
        """A customer, and one account on each platform, connected through the API; returns the
        customer's id and key."""
        customer, key = self.create_customer()
        for account in platforms.accounts.values():
            body = {name: account[name] for name in ("creator_id", "platform", "auth")}
            fetch(f"{self.base_url}/v1/connect/import", key, body)
        return customer, key


def run_on(options, name, books, run_of):
    """Runs the test on each of the databases, in a folder that is kept if the test failed. Returns whether all promises were
    kept, and how much was checked; on each database that must be something."""
    is_clean, counts = True, collections.Counter()
    for books_of in books:
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"creator-gateway-{name}."))
        try:
            run = run_of(options, books_of, folder)
        except (Failure, OSError, subprocess.SubprocessError) as failure:
            for log in sorted(folder.glob("*.log")):
                sys.stderr.write(f"{log.name}:\n{log.read_text(errors='replace')[-3000:]}\n")
            sys.exit(f"{name}: {failure}; everything is kept in {folder}")
        run.report()
        if run.findings.is_clean():
            counted(f"{name} on {run.books.name}", run.checked())
            counts.update(run.checked())
            shutil.rmtree(folder)
        else:
            is_clean = False
            print(f"{name}: everything is kept in {folder}", file=sys.stderr)
    return is_clean, counts


def begin(needs_postgres):
    """The common beginning of these tests."""
    # On SIGTERM, everything that was started is stopped first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Proxy settings of the environment must not affect calls to this machine.
    os.environ["no_proxy"] = "127.0.0.1,localhost"
    if needs_postgres and POSTGRES_VARIABLE not in os.environ:
        # PostgreSQL is started for the duration of the test.
        postgres = str(HERE / "postgres")
        os.execv(postgres, [postgres, "run", "--", sys.executable, *sys.orig_argv[1:]])


def add_binary(parser):
    default = HERE.parent / "target" / "release" / "creator-gateway"
    parser.add_argument("--binary", type=pathlib.Path, default=default)


def parse(parser):
    options = parser.parse_args()
    options.binary = options.binary.resolve()
    if not options.binary.exists():
        parser.error(f"there is no {options.binary}; build it, or name one with --binary")
    return options
