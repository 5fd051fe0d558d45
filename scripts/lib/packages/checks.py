"""What all checks of packages use: the program, a folder, schemas."""

import json
import os
import pathlib
import subprocess

import tools
from processes import Failure

ROOT = tools.ROOT
DEPLOY = ROOT / "deploy"
SCHEMAS = pathlib.Path(__file__).resolve().parent / "schemas.py"
# Only what hangs takes so long.
TIMEOUT_S = 1_800


class Checks:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.python = tools.schema_python()

    def run(self, *command, **options):
        """Runs a program, which must succeed; returns what it printed."""
        done = subprocess.run(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=TIMEOUT_S, check=False, **options,
        )
        if done.returncode != 0:
            raise Failure(f"{pathlib.Path(command[0]).name} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def schema(self, kind, *paths):
        self.run(self.python, SCHEMAS, kind, *paths)

    def load(self, *paths):
        """The documents of YAML files."""
        return json.loads(self.run(self.python, SCHEMAS, "load", *paths))

    def configuration(self, name, text, environment):
        """Checks settings as the service does at start: unknown and impossible ones are refused."""
        folder = self.folder / name
        folder.mkdir()
        file = folder / "gateway.toml"
        file.write_text(text)
        self.run(self.program, "check-config", "--config", file, cwd=folder, env=clean_environment(environment))


def clean_environment(added):
    """The environment without settings of the service."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CREATOR_GATEWAY__")}
    return {**kept, **added}
