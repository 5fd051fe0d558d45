"""The command: starts the candidates, measures them in alternating rounds, writes the results, and
stops everything it started."""

import argparse
import fcntl
import filecmp
import json
import os
import pathlib
import platform as system
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from gateway_bench import machine
from gateway_bench.chart import draw
from gateway_bench.common import ROOT, Failure, check, say
from gateway_bench.report import DOCUMENT, table
from gateway_bench.section import figure

from .candidates import Gateway, Peer
from .pages import PAGE_ROWS, start_platform

HERE = pathlib.Path(__file__).resolve().parent
WHEELS = HERE / "peers.txt"
OURS = "creator-gateway"
BEGIN = "<!-- benches/exports writes from here -->"
END = "<!-- benches/exports writes to here -->"
FORMATS = ("csv", "jsonl", "xlsx", "zip")
PEERS = {"csv": ["requests+csv", "dlt-csv"], "jsonl": ["requests+orjson", "dlt-jsonl"], "xlsx": ["XlsxWriter"], "zip": []}
# Rows per second relative to this peer: must and aim.
GOALS = {
    "requests+csv": (3, 7), "dlt-csv": (10, 20), "requests+orjson": (1.5, 4), "dlt-jsonl": (15, 40), "XlsxWriter": (5, 8),
}
MEMORY_GOAL = (48, 24)


def python_with_peers():
    """The Python of the environment with the peers."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    target.mkdir(parents=True, exist_ok=True)
    folder = target.resolve() / "exports-bench"
    installed = folder / "installed.txt"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed.exists() or not filecmp.cmp(WHEELS, installed, shallow=False):
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, stdout=sys.stderr)
            pip = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "5"]
            pinned = ["--only-binary", ":all:", "--require-hashes", "--requirement", WHEELS]
            subprocess.run([*pip, *pinned], check=True, stdout=sys.stderr)
            shutil.copyfile(WHEELS, installed)
    return folder / "bin/python"


def measure(options, folder):
    """All formats in alternating rounds with the peers: format to candidate to the files of each
    round."""
    _, platform_url = start_platform(folder, options.rows)
    python = None if options.ours else python_with_peers()
    gateway = Gateway(options.binary, folder / "gateway", platform_url)
    found = {form: {} for form in options.formats}
    for number in range(options.rounds):
        for form in options.formats:
            for name in [OURS, *(peer for peer in PEERS[form] if not options.ours)]:
                home = folder / f"{form}-{name}-{number}"
                home.mkdir()
                maker = gateway if name == OURS else Peer(name, python, platform_url, home)
                made = maker.make(form, home / f"data.{form}")
                check(made.rows == options.rows, f"{name}: {made.rows} rows in {form}, not {options.rows}")
                say(
                    f"{form} {name}: {made.seconds:.1f} s, {made.cpu_s:.1f} s of CPU, {made.peak_mib:.0f} MiB, "
                    f"downloaded in {made.download_s:.1f} s"
                )
                found[form].setdefault(name, []).append(made)
                shutil.rmtree(home)
    return found


def rows_of_table(found, rows):
    """The tables' rows, the ratios, and our peak memory."""
    lines, ratios = [], []
    for form, candidates in found.items():
        ours = candidates[OURS]
        for name, rounds in candidates.items():
            middle = lambda of: statistics.median(of(made) for made in rounds)
            cells = [form, name, figure(middle(lambda made: rows / made.seconds / 1_000))]
            cells += [figure(middle(lambda made: made.cpu_s * 1e6 / rows)), figure(middle(lambda made: made.peak_mib))]
            if name == OURS:
                cells += ["", "", figure(middle(lambda made: made.download_s))]
            else:
                faster = statistics.median(peer.seconds / own.seconds for peer, own in zip(rounds, ours))
                cheaper = statistics.median(peer.cpu_s / own.cpu_s for peer, own in zip(rounds, ours))
                cells += [figure(faster), figure(cheaper), ""]
                ratios.append((form, name, faster))
            lines.append(cells)
    peak = max(made.peak_mib for candidates in found.values() for made in candidates[OURS])
    return lines, ratios, peak


def rendered(options, found):
    """The results as Markdown, and the chart."""
    lines, ratios, peak = rows_of_table(found, options.rows)
    goals = []
    for form, name, value in ratios:
        must, aim = GOALS[name]
        judged = "aim" if value >= aim else "must" if value >= must else "no"
        goals.append([f"{form}, rows/s relative to {name}", figure(value), f"≥ {must}", f"≥ {aim}", judged])
    must, aim = MEMORY_GOAL
    judged = "aim" if peak <= aim else "must" if peak <= must else "no"
    goals.append(["peak memory above idle, MiB", figure(peak), f"≤ {must}", f"≤ {aim}", judged])
    head = ["format", "program", "1,000 rows/s", "CPU s per 1 M rows", "peak MiB", "we are faster ×", "we need less CPU ×", "download s"]
    commit = said("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    kind = profile_of(options.binary)
    conditions = [
        f"{time.strftime('%Y-%m-%d')}; {said(options.binary, '--version')}, {kind} of commit {options.commit or commit}; "
        f"this script at commit {commit}",
        f"{os.cpu_count()} cores, Linux {system.release()}, Python {system.python_version()}; the platform (nginx with one "
        "worker) and all programs share the cores",
        f"{options.rows:,} rows in pages of {PAGE_ROWS:,}, {options.rounds} round(s) in turns; ratios are medians of paired "
        "rounds; our time is until the file is published, our CPU and memory are with the download, and our memory is above "
        "idle; the peers' is all they have",
    ]
    text = f"{table(['goal', 'measured', 'must', 'aim', 'reached'], goals)}\n\n{table(head, lines)}\n\n"
    text += "\n".join(f"* {line}" for line in conditions)
    bars = {
        f"{form}: 1,000 rows/s": [[cells[1], float(cells[2].replace(",", ""))] for cells in lines if cells[0] == form]
        for form in found
    }
    return text, draw(bars)


def profile_of(binary):
    """How a binary was built, judging by its folder."""
    if "debug" in binary.parts:
        return "debug build: figures mean nothing"
    return "build of the profile dist" if "dist" in binary.parts else "build of the profile release"


def said(*arguments):
    """The first line of a program's output."""
    done = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True, check=False)
    return ((done.stdout or done.stderr).strip().splitlines() or [""])[0]


def publish(text, chart, found):
    """Writes the tables into the document, and data and chart next to it."""
    document = DOCUMENT.read_text()
    check(BEGIN in document and END in document, f"{DOCUMENT} has no markers for the tables")
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    image = "![Rows a second in each format](exports.svg)"
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{image}\n\n{text}\n\n{END}{after}")
    (DOCUMENT.parent / "exports.svg").write_text(chart)
    data = {form: {name: [vars(made) for made in rounds] for name, rounds in by.items()} for form, by in found.items()}
    (DOCUMENT.parent / "exports.json").write_text(json.dumps(data, indent=1) + "\n")


def read_options(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    formats = lambda text: [name for name in FORMATS if name in text.split(",")]
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/dist/creator-gateway")
    parser.add_argument("--commit", help="the commit of the binary; by default that of this repository")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", type=formats, default=list(FORMATS), help=f"of {','.join(FORMATS)}")
    parser.add_argument("--ours", action="store_true", help="without the peers")
    parser.add_argument("--publish", action="store_true")
    return parser.parse_args()


def end(number, _frame):
    """On a signal, everything that was started is stopped first."""
    sys.exit(128 + number)


def main(description):
    options = read_options(description)
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(name, end)
    os.environ["no_proxy"] = "127.0.0.1,localhost"
    machine.install([("nginx", "nginx")])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="creator-gateway-exports."))
    folder.chmod(0o755)
    kept = False
    try:
        found = measure(options, folder)
        text, chart = rendered(options, found)
        print(text)
        if options.publish:
            publish(text, chart, found)
            say(f"written: {DOCUMENT.relative_to(ROOT)}, exports.svg and exports.json beside it")
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        kept = True
        sys.exit(f"benches/exports: {failure}; logs are in {folder}")
    finally:
        machine.stop_all()
        if not kept:
            shutil.rmtree(folder)
