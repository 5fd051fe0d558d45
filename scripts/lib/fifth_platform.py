"""A platform of the operator's own, made of an imported document: declared, connected, called, and exported from.

The stub responds as GitHub's API does: paths, versions, pages with a `Link` header, errors of its shape, and cookies.
`docs/platforms.md` walks through the same steps.
"""

import csv
import http.server
import io
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from processes import CALL_TIMEOUT_S, WAIT_S, Service, check, fetch

NAME = "code_host"
TOKEN = "ghp-stub-token"
VERSION = "2022-11-28"
CREDITS = 100
ISSUES = 25
PAGE = 10
FOLLOWED = 130

# What the document does not say: which credentials an account has, and which list can be exported.
ADDITIONS = """
[[auth_fields]]
name = "token"
kind = "string"
required = true
secret = true
bytes_max = 255
description = "A personal access token."

[[datasets]]
name = "following"
description = "Whom the account follows."
route = "user/following"
rows = ""
id = "/id"
time = { field = "/created_at", unit = "rfc3339", optional = true }
paging = { style = "page", parameter = "page", size_parameter = "per_page", size = 50 }
columns = [
    { name = "id", type = "integer" },
    { name = "login", type = "text" },
    { name = "created_at", type = "time", unit = "rfc3339" },
    { name = "site_admin", type = "boolean" },
]
"""


def settings(folder, catalog, url):
    """The sections of the configuration."""
    return {
        f"platforms.{NAME}": {
            "base_url": url,
            "catalog": str(catalog),
            "cookies": True,
            "headers": [
                {"name": "Authorization", "value": "Bearer {token}"},
                {"name": "Accept", "value": "application/vnd.github+json"},
            ],
            "version_header": {"name": "X-GitHub-Api-Version", "value": VERSION},
            "verify_route": {"path": "user", "method": "GET", "body": "", "id_pointer": "/id", "equals_field": "", "accepted_statuses": []},
        },
        "slots.included": {NAME: 1},
        "storage": {"url": f"file:{folder / 'exports'}"},
        "uploads": {"folder": str(folder / "uploads")},
    }


class Stub(http.server.BaseHTTPRequestHandler):
    """The platform; `problems` names what was wrong with requests."""

    protocol_version = "HTTP/1.1"
    problems = []
    issues = [{"id": number, "number": number, "title": f"Issue {number}"} for number in range(1, ISSUES + 1)]
    followed = [
        {"id": 1000 + number, "login": f"user{number}", "site_admin": number % 2 == 0, "created_at": "2026-11-01T00:00:00Z"}
        for number in range(FOLLOWED)
    ]

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.respond(None)

    def do_POST(self):
        self.respond(json.loads(self.rfile.read(int(self.headers.get("content-length", 0)))))

    def respond(self, body):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            return self.send(401, {"message": "Bad credentials", "documentation_url": "https://docs.example.com/rest"})
        if self.headers.get("x-github-api-version") != VERSION:
            self.problems.append(f"{self.path} came with version {self.headers.get('x-github-api-version')}")
        if url.path != "/user" and self.headers.get("cookie") != "session=1":
            self.problems.append(f"{self.path} came with the cookies {self.headers.get('cookie')}")
        match (self.command, url.path):
            case ("GET", "/user"):
                return self.send(200, {"id": 4711, "login": "ada"}, {"Set-Cookie": "session=1; Path=/; HttpOnly"})
            case ("GET", "/repos/ada/engine/issues"):
                return self.page(url.path, query, self.issues)
            case ("POST", "/repos/ada/engine/issues"):
                return self.send(201, {"number": ISSUES + 1, "title": body["title"]}, {"Location": f"{self.origin()}{url.path}/{ISSUES + 1}"})
            case ("GET", "/user/following"):
                return self.page(url.path, query, self.followed)
        return self.send(404, {"message": "Not Found", "documentation_url": "https://docs.example.com/rest"})

    def origin(self):
        return f"http://{self.headers['host']}"

    def page(self, path, query, rows):
        number, size = int(query.get("page", 1)), int(query.get("per_page", 30))
        headers = {}
        if number * size < len(rows):
            headers["Link"] = f'<{self.origin()}{path}?per_page={size}&page={number + 1}>; rel="next"'
        return self.send(200, rows[(number - 1) * size : number * size], headers)

    def send(self, status, body, headers=None):
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json; charset=utf-8", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class NoSimulators:
    """The service stands alone: none of the simulated platforms is offered."""

    accounts = {}


class Caller:
    """A customer's program."""

    def __init__(self, service, key):
        self.service, self.key = service, key
        self.calls = 0

    def send(self, method, path, body=None):
        """Status, headers and body of a response."""
        self.calls += 1
        request = urllib.request.Request(f"{self.service.base_url}{path}", method=method, headers={"X-API-Key": self.key})
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.headers, refused.read()

    def costs(self, cost, method, path, body=None, status=200):
        """A call with this status and cost."""
        got, headers, content = self.send(method, path, body)
        check(got == status, f"{method} {path}: {got} {content[:300]}")
        check(headers["X-Credits-Cost"] == str(cost), f"{method} {path} cost {headers['X-Credits-Cost']} and not {cost}")
        check("set-cookie" not in {name.lower() for name in headers}, f"{path} shows a cookie")
        return headers, json.loads(content)


def calls(caller):
    """Connects an account, and makes reads, a write and a list of pages; returns what they cost."""
    imported = {"creator_id": "ada", "platform": NAME, "auth": {"token": TOKEN}}
    status, _, content = caller.send("POST", "/v1/connect/import", imported)
    check(status == 201, f"the account was not connected: {status} {content[:300]}")
    check(json.loads(content)["platform_account_id"] == "4711", f"its id is wrong: {content[:300]}")
    headers, _ = caller.costs(1, "GET", "/v1/ada/native/user")
    check(headers["X-Route"] == "GET user", f"the route is {headers['X-Route']}")
    headers, made = caller.costs(2, "POST", "/v1/ada/native/repos/ada/engine/issues", {"title": "New"}, status=201)
    check(made["title"] == "New", f"the issue is {made}")
    check(headers["Location"] == f"/v1/ada/native/repos/ada/engine/issues/{ISSUES + 1}", f"Location is {headers['Location']}")
    _, error = caller.costs(1, "GET", "/v1/ada/native/repos/ada/missing", status=404)
    check(error["message"] == "Not Found", f"the error is {error}")
    path, rows, pages = f"/v1/ada/native/repos/ada/engine/issues?per_page={PAGE}", [], 0
    while path:
        headers, page = caller.costs(1, "GET", path)
        rows, pages = rows + page, pages + 1
        link = headers["Link"]
        path = link[1 : link.index(">")] if link else None
    check(rows == Stub.issues, f"{len(rows)} issues came, or in another order")
    return 1 + 2 + 1 + pages


def export(caller):
    """Exports the declared dataset; returns what it cost."""
    status, _, content = caller.send("POST", "/v1/ada/exports", {"dataset": "following", "fmt": "csv"})
    check(status == 201, f"the export was refused: {status} {content[:300]}")
    job = json.loads(content)
    begun = time.monotonic()
    while job["status"] in ("pending", "running"):
        check(time.monotonic() - begun < WAIT_S, f"the export did not end: {job}")
        time.sleep(0.1)
        job = fetch(f"{caller.service.base_url}/v1/exports/{job['job_id']}", caller.key)
    check(job["status"] == "completed", f"the export ended so: {job}")
    _, _, content = caller.send("GET", f"/v1/exports/{job['job_id']}/download")
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    check([int(row["id"]) for row in rows] == [row["id"] for row in Stub.followed], f"the file has {len(rows)} rows")
    check(list(rows[0])[:4] == ["id", "login", "created_at", "site_admin"], f"its columns are {list(rows[0])}")
    return 10


def trial(binary, folder, catalog_text):
    """Runs all of it; returns how many calls were made, and a line that says what was measured."""
    Stub.problems.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    catalog = folder / "code-host.toml"
    catalog.write_text(catalog_text + ADDITIONS)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    service = Service(binary, folder, NoSimulators, f"sqlite:{folder / 'fifth.db'}", name="fifth", settings=settings(folder, catalog, url))
    try:
        service.start()
        service.wait_for_health()
        caller = Caller(service, service.create_customer(credits=CREDITS)[1])
        spent = calls(caller) + export(caller)
        billing = fetch(f"{service.base_url}/v1/billing", caller.key)
        check(billing["balance"] == CREDITS - spent, f"{spent} credits should be spent: {billing}")
        log = fetch(f"{service.base_url}/v1/billing/usage/recent", caller.key)["calls"]
        check({entry["platform"] for entry in log} == {NAME}, f"the call log names other platforms: {log[:3]}")
        service.child.stop()
        service.start()
        start_ms = service.wait_for_health()
        caller.costs(1, "GET", "/v1/ada/native/repos/ada/engine/issues")
        check(not Stub.problems, f"the platform complains: {Stub.problems[:5]}")
        service.child.stop()
        done = service.command("verify")
        check(done.returncode == 0, f"verify found: {done.stdout}{done.stderr}")
    finally:
        if service.child:
            service.child.kill()
        server.shutdown()
    return caller.calls, f"a fifth platform: {spent} credits for reads, a write, pages and an export of {FOLLOWED} rows; start with its routes {start_ms:.0f} ms"
