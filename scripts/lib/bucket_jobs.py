"""Whole exports of a service that stores in a bucket, checked with an independent client for such
stores."""

import hashlib
import http.client
import json
import sqlite3
import time
import urllib.parse

import boto3
import botocore.config
from lib.books import SqliteBooks
from lib.processes import WAIT_S, Platforms, Service, call, check, fetch

PLATFORM, DATASET, ROWS = "platform_alpha", "subscribers", 1_000
FORMATS = ("csv", "jsonl", "xlsx", "zip")
REGION = "us-east-1"


class Store:
    """A bucket of a store."""

    def __init__(self, endpoint, bucket, key, secret):
        self.endpoint, self.bucket, self.key, self.secret = endpoint, bucket, key, secret
        self.client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=REGION,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            config=botocore.config.Config(s3={"addressing_style": "path"}),
        )

    def settings(self, work_folder):
        """The configuration section of a service that stores in it."""
        return {
            "url": f"s3://{self.bucket}",
            "endpoint": self.endpoint,
            "region": REGION,
            "access_key_id": self.key,
            "secret_access_key": self.secret,
            "work_folder": str(work_folder),
        }

    def names(self, below="exports/"):
        listed = self.client.list_objects_v2(Bucket=self.bucket, Prefix=below)
        check(not listed.get("IsTruncated"), f"too much lies below {below}")
        return sorted(found["Key"] for found in listed.get("Contents", ()))

    def content(self, name):
        return self.client.get_object(Bucket=self.bucket, Key=name)["Body"].read()

    def put(self, name, content):
        self.client.put_object(Bucket=self.bucket, Key=name, Body=content)


def get(url, headers=None):
    """Status, headers and body of a response; redirects are not followed."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=WAIT_S)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}", headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def wait_for(what, is_there):
    """Waits until the condition is true, and returns its value."""
    end = time.monotonic() + WAIT_S
    while not (found := is_there()):
        check(time.monotonic() < end, f"not in time: {what}")
        time.sleep(0.05)
    return found


class Jobs:
    """A service and its exports. Creating one runs everything."""

    def __init__(self, binary, folder, store, lacks):
        self.folder, self.store, self.lacks = folder, store, lacks
        self.machines = self.exports = 0
        self.platforms = self.service = None
        folder.mkdir()
        try:
            self.platforms = Platforms(binary, folder)
            self.books = SqliteBooks(folder)
            exports = {"workers": 2, "lease_s": 10, "renew_s": 1, "poll_ms": 100}
            settings = {"exports": exports, "storage": store.settings(folder / "work0")}
            self.service = Service(binary, folder, self.platforms, self.books.url, settings=settings)
            self._carry_out()
        finally:
            for child in (self.service and self.service.child, self.platforms):
                if child:
                    child.kill()

    def _carry_out(self):
        self._start()
        _, self.key = self.service.prepare(self.platforms)
        self.account = self.platforms.accounts[PLATFORM]["creator_id"]
        made = {fmt: self._made(fmt) for fmt in FORMATS}
        if "signatures" not in self.lacks:
            self._addresses_serve_for_nothing_else(made)
        self._killed("csv", made["csv"])
        self._stopped("jsonl", made["jsonl"])
        self._cancelled()
        taken = None if "conditions" in self.lacks else self._taken()
        self._removed(made["csv"], made["xlsx"])
        if taken:
            self._published_elsewhere(taken, made["csv"])
        outputs = {row[0] for row in self.books.query("select output_key from export_jobs where output_key is not null")}
        check(len(outputs) >= 4, f"files are missing: {outputs}")
        wait_for("nothing but published files", lambda: set(self.store.names()) == outputs)
        check(self.service.child.stop() == 0, "the service did not end well")
        verified = self.service.command("verify")
        check(verified.returncode == 0, f"the ledger is inconsistent: {verified.stdout}{verified.stderr}")

    # Restarts of the service, each as if on another machine: it sees only the bucket.

    def _start(self, point=None):
        """Starts it; at a point its work stops until the marker file is removed."""
        mark = self.folder / "reached"
        mark.unlink(missing_ok=True)
        self.machines += 1
        self.service.settings["storage"] = self.store.settings(self.folder / f"work{self.machines}")
        self.service.write_configuration(self.platforms)
        self.service.environment = {"CREATOR_GATEWAY_FAIL_POINT": f"{point}:{mark}"} if point else {}
        self.service.start()
        self.service.wait_for_health()
        return mark

    def _restart(self, point):
        check(self.service.child.stop() == 0, "the service did not end well")
        return self._start(point)

    def _create(self, fmt):
        self.exports += 1
        body = {"dataset": DATASET, "fmt": fmt, "max_rows": ROWS}
        return fetch(f"{self.service.base_url}/v1/{self.account}/exports", self.key, body)["job_id"]

    def _record(self, job):
        return fetch(f"{self.service.base_url}/v1/exports/{job}", self.key)

    def _ended(self, job):
        return wait_for(
            f"the end of {job}",
            lambda: (record := self._record(job))["status"] not in ("pending", "running", "cancelling") and record,
        )

    def _claims(self, job):
        """How often an export was claimed. A worker that is late on a slow or busy machine loses it to another one."""
        [(claims,)] = self.books.query(f"select lease_token from export_jobs where id = '{job}'")
        return int(claims)

    def _stored(self, job, fmt, claims_min):
        """The name of an export's file, once nothing else of it is in the bucket."""
        claims = self._claims(job)
        check(claims >= claims_min, f"{job} was claimed {claims} times, not {claims_min}")
        name = f"exports/{job}/{claims}/data.{fmt}"
        wait_for(f"{name} alone", lambda: self.store.names(f"exports/{job}/") == [name])
        return name

    def _pages(self):
        return sum(1 for request in self.platforms.requests(PLATFORM) if DATASET in request["path"])

    # The cases.

    def _made(self, fmt):
        """An undisturbed export: its file is in the bucket, and can be downloaded whole and in
        parts."""
        job = self._create(fmt)
        record = self._ended(job)
        check(record["status"] == "completed", f"{fmt}: {record}")
        name = self._stored(job, fmt, 1)
        whole = self.store.content(name)
        self._is_given(record, whole)
        return {"job": job, "record": record, "name": name, "whole": whole}

    def _is_given(self, record, whole):
        what = record["job_id"]
        check(hashlib.sha256(whole).hexdigest() == record["sha256"], f"{what}: its bytes differ from its record")
        check(len(whole) == record["bytes"], f"{what}: {len(whole)} bytes, not {record['bytes']}")
        status, body = call(self.service, self.key, "GET", f"/v1/exports/{what}/download")
        check(status == 200 and body == whole, f"{what}: with a key {status}, {len(body)} bytes")
        status, headers, _ = get(record["download_url"])
        check(status == 307, f"{what}: the link responds {status}")
        address = headers["Location"]
        check(address.startswith(f"{self.store.endpoint}/{self.store.bucket}/"), f"{what}: leads to {address}")
        status, headers, body = get(address)
        check(status == 200 and body == whole, f"{what}: at the store {status}, {len(body)} bytes")
        if "names" not in self.lacks:
            named = headers["Content-Disposition"]
            check(named == f'attachment; filename="export-{what}.{record["fmt"]}"', f"{what}: is named {named}")
        status, headers, body = get(address, {"Range": "bytes=5-9"})
        check(status == 206 and body == whole[5:10], f"{what}: a part is {status} {body[:20]}")
        return address

    def _addresses_serve_for_nothing_else(self, made):
        one, other = made["csv"], made["jsonl"]
        _, headers, _ = get(one["record"]["download_url"])
        address = headers["Location"]
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(address).query))
        for what, changed in (
            ("another file", address.replace(one["name"], other["name"])),
            ("no signature", address.split("&X-Amz-Signature")[0]),
            ("a longer life", address.replace("X-Amz-Expires=300", "X-Amz-Expires=3000")),
            ("another time", address.replace(query["X-Amz-Date"], "20260101T000000Z")),
        ):
            check(changed != address, f"{what}: nothing was changed in {address}")
            status, _, body = get(changed)
            check(400 <= status < 404, f"{what}: {status}")
            check(body not in (one["whole"], other["whole"]), f"{what}: the file was given")
        link = one["record"]["download_url"]
        status, _, _ = get(link.replace(one["job"], other["job"]))
        check(status == 403, f"a link of another export: {status}")

    def _at_point(self, point, fmt):
        """An export whose work is stopped: one or two pages are in the bucket, and nothing can be
        downloaded."""
        mark = self._restart(point)
        job = self._create(fmt)
        wait_for(f"{point} of {job}", mark.exists)
        status, _ = call(self.service, self.key, "GET", f"/v1/exports/{job}/download")
        check(status == 409, f"{job} can be downloaded at {point}: {status}")
        return mark, job

    def _killed(self, fmt, undisturbed):
        before = self._pages()
        mark, job = self._at_point("page_kept:2", fmt)
        frames = [f"exports/{job}/1/spool/{page:010}" for page in range(2)]
        check(self.store.names(f"exports/{job}/") == frames, f"frames: {self.store.names(f'exports/{job}/')}")
        self.service.child.kill()
        mark.unlink()
        self._start()
        self._goes_on(job, fmt, undisturbed, before)

    def _stopped(self, fmt, undisturbed):
        before = self._pages()
        _, job = self._at_point("page_kept:1", fmt)
        check(len(self.store.names(f"exports/{job}/")) == 1, "no frame is in the bucket")
        self._restart(None)
        self._goes_on(job, fmt, undisturbed, before)

    def _goes_on(self, job, fmt, undisturbed, before):
        """Another machine has continued from the contents of the bucket."""
        record = self._ended(job)
        check(record["status"] == "completed", f"handed over: {record}")
        again = self._pages() - before - undisturbed["record"]["progress"]["pages"]
        check(again < self._claims(job), f"{job}: {again} pages were fetched again")
        name = self._stored(job, fmt, 2)
        check(self.store.content(name) == undisturbed["whole"], f"{job} differs from an undisturbed export")
        self._is_given(record, undisturbed["whole"])

    def _cancelled(self):
        mark, job = self._at_point("page_kept:2", "csv")
        check(len(self.store.names(f"exports/{job}/")) == 2, "no frames are in the bucket")
        status, body = call(self.service, self.key, "POST", f"/v1/exports/{job}/cancel")
        check(status in (200, 202), f"cancel: {status} {body}")
        record = self._ended(job)
        check(record["status"] == "cancelled", f"cancelled: {record}")
        wait_for("nothing of a cancelled export", lambda: not self.store.names(f"exports/{job}/"))
        mark.unlink()

    def _taken(self):
        """Another file has the name under which a claim would store its file."""
        mark, job = self._at_point("rendered:1", "csv")
        name = f"exports/{job}/1/data.csv"
        self.store.put(name, b"not ours")
        mark.unlink()
        wait_for(f"{job} put off", lambda: self._is_put_off(job))
        check(self.store.content(name) == b"not ours", "the existing file was overwritten")
        return job

    def _is_put_off(self, job):
        record = self._record(job)
        check(record["status"] in ("pending", "running"), f"published a file that is not its own: {record}")
        log = self.service.log.read_text(errors="replace")
        return any(job in line and "will be retried" in line for line in log.splitlines())

    def _published_elsewhere(self, job, undisturbed):
        record = self._ended(job)
        check(record["status"] == "completed", f"put off: {record}")
        self._stored(job, "csv", 2)
        self._is_given(record, undisturbed["whole"])

    def _removed(self, deleted, expired):
        """One is deleted, and another expires."""
        _, headers, _ = get(deleted["record"]["download_url"])
        address = headers["Location"]
        status, _ = call(self.service, self.key, "DELETE", f"/v1/exports/{deleted['job']}")
        check(status == 204, f"delete: {status}")
        check(get(deleted["record"]["download_url"])[0] == 403, "the link of a deleted export works")
        check(self.service.child.stop() == 0, "the service did not end well")
        with sqlite3.connect(self.books.path) as books:
            books.execute("update export_jobs set expires_at = finished_at where id = ?", (expired["job"],))
        books.close()
        self._start()
        for export in (deleted, expired):
            wait_for(f"no {export['name']}", lambda: not self.store.names(f"exports/{export['job']}/"))
        # A store need not distinguish missing files from forbidden ones.
        check(get(address)[0] in (403, 404), f"the address of a deleted file responds {get(address)[0]}")
        status, body = call(self.service, self.key, "GET", f"/v1/exports/{expired['job']}/download")
        check(status == 410, f"an expired file responds {status}")
        check(json.loads(body)["code"] == "export_expired", f"an expired file: {body}")
