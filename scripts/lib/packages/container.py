"""The Dockerfile, as far as it can be checked without images: what it copies, and its last stage, whose
command and health check are run with the built program."""

import http.client
import json
import os
import pwd
import re
import shutil
import subprocess
import time
import tomllib

from checks import DEPLOY, ROOT, TIMEOUT_S, clean_environment
from processes import check, free_port

DOCKERFILE = DEPLOY / "container/Dockerfile"
PORTS = ("8080", "9091")


def instructions():
    """Pairs of an instruction and its text, with continued lines joined."""
    text = "\n".join(line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#"))
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def last_stage():
    found = instructions()
    start = max(index for index, (name, _) in enumerate(found) if name == "FROM")
    return found[start:]


def value(stage, name):
    return next(text for each, text in stage if each == name)


def copied():
    """What is copied from the sources."""
    lines = [text.split() for name, text in instructions() if name == "COPY" and "--from" not in text]
    return [source for parts in lines for source in parts[:-1]]


def check_rules():
    """Rules for every stage: versions are fixed, what is copied exists and reaches the build."""
    toolchain = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
    images = [text.split()[0] for name, text in instructions() if name == "FROM"]
    check(images[0] == f"rust:{toolchain}-slim-bookworm", f"the build uses {images[0]}, and not Rust {toolchain}")
    check(all(":" in image and not image.endswith(":latest") for image in images), f"an image has no version: {images}")
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    check(all(name != "ADD" for name, _ in instructions()), "ADD does more than COPY")
    for source in copied():
        check((ROOT / source).exists(), f"COPY {source}: there is no such file")
        check(source in sent, f"COPY {source}: .dockerignore leaves it out")


def check_sources(checks):
    """Cargo finds the whole workspace in what is copied."""
    folder = checks.folder / "sources"
    folder.mkdir()
    for source in copied():
        (folder / source).symlink_to(ROOT / source)
    checks.run("cargo", "metadata", "--locked", "--no-deps", "--format-version", "1", "--quiet", cwd=folder)


def with_free_ports(text, ports):
    text = text.replace("0.0.0.0:", "127.0.0.1:")
    for name, port in ports.items():
        text = text.replace(name, port)
    return text


def as_nobody(program, folder):
    """The prefix of a command that runs without rights, and the program where that user can read it."""
    copy = folder / "creator-gateway"
    shutil.copyfile(program, copy)
    copy.chmod(0o755)
    if os.geteuid() != 0:
        return [], copy
    nobody = pwd.getpwnam("nobody")
    os.chown(folder / "data", nobody.pw_uid, nobody.pw_gid)
    return ["setpriv", "--reuid", "nobody", "--regid", str(nobody.pw_gid), "--clear-groups", "--no-new-privs"], copy


def wait_until_ready(port, service):
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        check(service.poll() is None, "the service ended")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=TIMEOUT_S)
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    check(False, "the service was not ready in time")


def play(checks, stage):
    """Starts the command of the image, and runs its health check beside it and after it."""
    folder = checks.folder / "container"
    (folder / "data").mkdir(parents=True)
    (folder / "data").chmod(0o700)
    folder.chmod(0o711)
    prefix, program = as_nobody(checks.program, folder)
    ports = {name: str(free_port()) for name in PORTS}
    settings = dict(with_free_ports(text, ports).split("=", 1) for name, text in stage if name == "ENV")
    settings["CREATOR_GATEWAY__ADMIN__LISTEN"] = "127.0.0.1:0"
    probe = json.loads(with_free_ports(value(stage, "HEALTHCHECK").split("CMD", 1)[1], ports))
    entry = json.loads(value(stage, "ENTRYPOINT")) + json.loads(value(stage, "CMD"))
    check(entry[0] == "/usr/bin/creator-gateway", f"the image starts {entry[0]}")
    with open(folder / "log", "wb") as log:
        service = subprocess.Popen(
            [*prefix, program, *entry[1:]], cwd=folder / "data", env=clean_environment(settings),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )
    try:
        wait_until_ready(ports["9091"], service)
        checks.run(*prefix, *probe)
        service.terminate()
        # The second signal ends the time in which it announces that it stops.
        time.sleep(0.2)
        service.terminate()
        check(service.wait(TIMEOUT_S) == 0, "the service did not end well after SIGTERM")
    except Exception:
        print((folder / "log").read_text(errors="replace"))
        raise
    finally:
        if service.poll() is None:
            service.kill()
            service.wait()
    dead = subprocess.run([*prefix, *probe], stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False)
    check(dead.returncode != 0, "the health check passes without a service")


def run(checks):
    check_rules()
    check_sources(checks)
    stage = last_stage()
    user = value(stage, "USER")
    # Kubernetes can only see that a number is not root.
    check(re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), f"the image runs as {user}")
    check(value(stage, "EXPOSE").split() == list(PORTS), "EXPOSE names other ports")
    play(checks, stage)
    return {"steps of the Dockerfile": len(instructions())}
