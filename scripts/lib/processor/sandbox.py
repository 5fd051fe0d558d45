"""A process of the program that prints its addresses on its first line, in JSON."""

import json
import os
import subprocess
import tempfile
import threading

# Only what hangs takes so long.
START_TIMEOUT_S = 300
STOP_TIMEOUT_S = 300
LOG_BYTES_MAX = 8_192


class Process:
    def __init__(self, program, *arguments, environment=None):
        self.log = tempfile.TemporaryFile()
        command = [program, *map(str, arguments)]
        everything = {**os.environ, **(environment or {})}
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, env=everything)
        lines = []
        reader = threading.Thread(target=lambda: lines.append(self.process.stdout.readline()), daemon=True)
        reader.start()
        reader.join(START_TIMEOUT_S)
        if not lines or not lines[0]:
            self.stop()
            raise SystemExit(f"{command} did not start: {self.said()}")
        self.facts = json.loads(lines[0])

    def said(self):
        """The end of its log."""
        self.log.seek(0)
        return self.log.read()[-LOG_BYTES_MAX:].decode(errors="replace")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
