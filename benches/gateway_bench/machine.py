"""Starts and stops processes, and measures their cost: CPU time and memory."""

import contextlib
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import threading

from .common import check, say

TICKS = os.sysconf("SC_CLK_TCK")
STOP_TIMEOUT_S = 40
SAMPLE_PAUSE_S = 0.1
FILES_WANTED = 20_000
_running = []


def free_port():
    """A port of 127.0.0.1 that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def raise_file_limit():
    """Raises the limit of open files as far as the system allows, up to what 9,000 proxied
    connections need."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, FILES_WANTED)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def start(arguments, log, environment=None):
    """Starts a process, which is stopped at the end in any case."""
    with open(log, "ab") as file:
        process = subprocess.Popen(
            [str(argument) for argument in arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**os.environ, **(environment or {})},
        )
    _running.append(process)
    return process


def stop(process):
    """Asks a process to end, and kills it if it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    with contextlib.suppress(ValueError):
        _running.remove(process)


def stop_all():
    """Stops all running processes, the last one first, without being interrupted."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    for process in reversed(_running.copy()):
        stop(process)


def install(programs):
    """Installs missing programs from the system's packages: pairs of (required path or program,
    package)."""
    missing = [package for wanted, package in programs if not (shutil.which(wanted) or os.path.exists(wanted))]
    if not missing:
        return
    check(shutil.which("apt-get"), f"install {', '.join(missing)}")
    say(f"installing {', '.join(missing)} from the system's packages")
    as_root = [] if os.getuid() == 0 else ["sudo"]
    # Packages must not start services of their own: the measurement starts everything itself, on
    # free ports.
    environment = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"]
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
        command = [*as_root, *environment, "apt-get", *arguments]
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)


def _stat_of(pid):
    """The parent of a process, and the CPU seconds of it and its ended children."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1]), sum(map(int, fields[11:15])) / TICKS


def _below(roots):
    """These processes and their descendants: process id to CPU seconds."""
    stats = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                stats[int(entry)] = _stat_of(entry)
    found = {}
    for pid, (_, seconds) in stats.items():
        ancestor = pid
        while ancestor in stats and ancestor not in roots:
            ancestor = stats[ancestor][0]
        if ancestor in roots:
            found[pid] = seconds
    return found


def cpu_of(roots):
    """CPU seconds of these processes and their descendants."""
    return sum(_below(roots).values())


def machine_cpu():
    """The CPU seconds that all cores together were busy, and the total."""
    fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    ticks = list(map(int, fields))
    return (sum(ticks) - ticks[3] - ticks[4]) / TICKS, sum(ticks) / TICKS


def family(roots):
    """The ids of these processes and their descendants."""
    return set(_below(roots))


def resident_mib(pids):
    """Resident memory of these processes. Shared memory, such as a database's, counts once: the
    largest shared part."""
    own, shared = 0, 0
    for pid in pids:
        with contextlib.suppress(OSError):
            resident, common = map(int, pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1:3])
            own += resident - common
            shared = max(shared, common)
    return (own + shared) * resource.getpagesize() / 2**20


@contextlib.contextmanager
def peak_memory(roots):
    """Samples the memory of these processes and their descendants while the block runs; the list's
    only entry is the peak in MiB."""
    pids = family(roots)
    peak = [resident_mib(pids)]
    ended = threading.Event()

    def sample():
        while not ended.wait(SAMPLE_PAUSE_S):
            peak[0] = max(peak[0], resident_mib(pids))

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield peak
    finally:
        ended.set()
        sampler.join()
