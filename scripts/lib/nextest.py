"""The tests that only some scripts run, as scripts/test compiles them: with the whole workspace, of which nothing is built
twice."""

import os
import re
import subprocess

from lib.processes import HERE, check

COMMAND = ["cargo", "nextest", "run", "--workspace", "--features", "storage/stores,tabular/files", "--locked"]


def run_tests(chosen, environment):
    """Runs the chosen tests, of which there must be some; returns how many passed."""
    tools = subprocess.run([HERE / "tools"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    options = ["--no-tests=fail", "--ignore-default-filter", "--filterset", chosen, "--cargo-quiet", "--status-level", "fail"]
    path = os.pathsep.join([tools, os.environ["PATH"]])
    done = subprocess.run(
        [*COMMAND, *options],
        cwd=HERE.parent,
        env={**os.environ, "PATH": path, "CARGO_TERM_COLOR": "never", **environment},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    check(done.returncode == 0, f"cargo nextest ended with {done.returncode}:\n{done.stdout}")
    return int(re.search(r"Summary .*?(\d+) tests? run: ", done.stdout)[1])
