"""The programs that make the files: creator-gateway through its own routes, and the peers as
separate processes."""

import base64
import dataclasses
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import time
import urllib.request
import zipfile

from gateway_bench import machine
from gateway_bench.common import call, check, wait_for

from .pages import PAGE_ROWS, PATH

HERE = pathlib.Path(__file__).resolve().parent
ACCOUNT = "bench"
POLL_S = 0.05
JOB_TIMEOUT_S = 3_600

CONFIGURATION = """
[http]
listen = "127.0.0.1:{port}"
public_base_url = "http://127.0.0.1:{port}"
[admin]
listen = "127.0.0.1:{admin_port}"
token = "{admin_token}"
[database]
url = "sqlite:{folder}/gateway.db"
[secrets]
master_keys = ["bench:{master_key}"]
[rate_limits]
control_per_key_per_second = 1000000
control_per_key_burst = 1000000
[log]
filter = "warn"
format = "json"
[platforms.platform_gamma]
base_url = "{platform_url}"
catalog = "{folder}/catalog.toml"
"""
# The dataset as shipped, with pages of the measured size.
CATALOG = f"""
[[datasets]]
name = "subscribers"
description = "The list that is measured."
route = "subscribers"
rows = ""
id = "/_id"
time = {{ field = "/created_at", unit = "rfc3339" }}
paging = {{ style = "offset", parameter = "offset", size_parameter = "limit", size = {PAGE_ROWS}, empty_body = true }}
"""


@dataclasses.dataclass
class Made:
    """One file, and its cost."""

    rows: int
    # Until the file is complete: a peer's is written, ours is published.
    seconds: float
    cpu_s: float
    peak_mib: float
    # The additional time to download ours.
    download_s: float = 0.0


class Gateway:
    """creator-gateway with its own folder, database and customer."""

    def __init__(self, binary, folder, platform_url):
        folder.mkdir()
        self.binary, self.folder = binary, folder
        port = machine.free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.config = folder / "config.toml"
        self.config.write_text(
            CONFIGURATION.format(
                port=port, admin_port=machine.free_port(), admin_token=secrets.token_hex(32), folder=folder,
                master_key=base64.b64encode(os.urandom(32)).decode(), platform_url=platform_url,
            )
        )
        (folder / "catalog.toml").write_text(CATALOG)
        self.process = machine.start([binary, "serve", "--config", self.config], folder / "log")
        wait_for(f"{self.url}/health", self.process)
        self.key = self._customer()

    def _customer(self):
        command = [self.binary, "admin", "create-customer", "--email", "a@example.com", "--credits", "1000000", "--json"]
        done = subprocess.run([*command, "--config", self.config], capture_output=True, text=True, check=True)
        facts = json.loads(done.stdout)
        key = (facts if "api_key" in facts else next(iter(facts.values())))["api_key"]
        auth = {"token": "t", "resource": "r", "account_id": "1"}
        call(f"{self.url}/v1/connect/import", key, {"creator_id": ACCOUNT, "platform": "platform_gamma", "auth": auth})
        return key

    def make(self, form, path):
        """A whole job, from its creation until its file is published, and the download of the
        file."""
        roots = frozenset({self.process.pid})
        idle, before = machine.resident_mib(machine.family(roots)), machine.cpu_of(roots)
        begun = time.monotonic()
        with machine.peak_memory(roots) as peak:
            job = json.loads(call(f"{self.url}/v1/{ACCOUNT}/exports", self.key, {"dataset": "subscribers", "fmt": form}))
            while job["status"] in ("pending", "running"):
                check(time.monotonic() - begun < JOB_TIMEOUT_S, "a job does not end")
                time.sleep(POLL_S)
                job = json.loads(call(f"{self.url}/v1/exports/{job['job_id']}", self.key))
            seconds = time.monotonic() - begun
            check(job["status"] == "completed", f"a job ended as {job['status']}: {job['error']}")
            address = f"{self.url}/v1/exports/{job['job_id']}/download"
            request = urllib.request.Request(address, headers={"X-API-Key": self.key})
            with urllib.request.urlopen(request, timeout=JOB_TIMEOUT_S) as answer, open(path, "wb") as file:
                shutil.copyfileobj(answer, file, 1 << 20)
            download_s = time.monotonic() - begun - seconds
        return Made(count(form, path), seconds, machine.cpu_of(roots) - before, peak[0] - idle, download_s)


class Peer:
    """A program in Python."""

    def __init__(self, name, python, platform_url, folder):
        self.name, self.python, self.folder = name, python, folder
        self.address = f"{platform_url}/{PATH}"

    def make(self, form, path):
        """One run, from the start of the process to its end."""
        arguments = [self.python, "-P", HERE / "peer.py", self.name, self.address, path]
        environment = {"TMPDIR": str(self.folder), "HOME": str(self.folder)}
        begun = time.monotonic()
        process = machine.start(arguments, self.folder / "log", environment)
        used = 0.0
        with machine.peak_memory(frozenset({process.pid})) as peak:
            _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        used = usage.ru_utime + usage.ru_stime
        process.returncode = os.waitstatus_to_exitcode(status)
        check(process.returncode == 0, f"{self.name} failed; its log is {self.folder}/log")
        return Made(count(form, path), seconds, used, peak[0])


def count(form, path):
    """The number of rows in a file, counted in the file."""
    if form == "xlsx":
        with zipfile.ZipFile(path) as file, file.open("xl/worksheets/sheet1.xml") as sheet:
            return occurrences(sheet, b"<row ") - 1
    if form == "zip":
        with zipfile.ZipFile(path) as file, file.open("data.csv") as data:
            return occurrences(data, b"\n") - 1
    with open(path, "rb") as file:
        return occurrences(file, b"\n") - (form == "csv")


def occurrences(file, mark):
    found, kept = 0, b""
    while block := file.read(1 << 20):
        block = kept + block
        found += block.count(mark)
        kept = block[len(block) - len(mark) + 1 :] if len(mark) > 1 else b""
    return found
