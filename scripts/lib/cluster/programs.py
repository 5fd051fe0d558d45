"""External programs of a scenario: found, installed if missing, and ended by their id."""

import os
import pathlib
import pwd
import shutil
import signal
import string
import subprocess
import sys

from lib.processes import HERE, STOP_TIMEOUT_S, Child, check

# The documented configuration files; scenarios use them with their placeholders filled in.
TEMPLATES = HERE.parent / "docs" / "high-availability"
# How long a program that is no longer needed may take to end before it is killed.
CLOSE_TIMEOUT_S = 15
# Administrators' programs may be missing from the PATH.
FOLDERS = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def program(name, *packages):
    """The path of a program, which is installed from the system's packages if it is missing."""
    found = shutil.which(name, path=FOLDERS)
    if found is None and shutil.which("apt-get"):
        install(packages)
        found = shutil.which(name, path=FOLDERS)
    check(found, f"install {', '.join(packages)} so that {name} is in the PATH")
    return found


def install(packages):
    print(f"cluster-test: installing {', '.join(packages)} from the system's packages", file=sys.stderr)
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    # Installed packages must not be started as services of this machine.
    quiet = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get", "-qq"]
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        subprocess.run([*quiet, *arguments], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def owner():
    """The user that runs databases, which refuse to run as root; None if it is the current user."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def as_owner():
    """The prefix of a command that must not run as root."""
    name = owner()
    if name is None:
        return []
    account = pwd.getpwnam(name)
    return ["setpriv", "--reuid", name, "--regid", str(account.pw_gid), "--clear-groups"]


def own_folder(folder):
    """Creates a folder that belongs to the user that runs databases."""
    folder.mkdir(mode=0o700)
    # That user must be able to pass through the folder of the test.
    folder.parent.chmod(0o711)
    if owner():
        shutil.chown(folder, owner(), pwd.getpwnam(owner()).pw_gid)
    return folder


def fill(template, folder, **places):
    """A documented configuration with its placeholders filled in, in a file that the databases'
    user may read."""
    content = string.Template((TEMPLATES / template).read_text()).substitute(places)
    path = folder / template
    path.write_text(content)
    path.chmod(0o644)
    return path


class Helper(Child):
    """A process that is ended as the last step in any case."""

    def __init__(self, arguments, log, *, is_owners=True, environment=None):
        super().__init__([*(as_owner() if is_owners else []), *arguments], log, environment)

    def close(self):
        """Ends it in order, and kills it if that fails."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(CLOSE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                pass
        self.kill()


def run_as_owner(arguments, **more):
    done = subprocess.run(
        [*as_owner(), *map(str, arguments)],
        check=False,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=STOP_TIMEOUT_S,
        **more,
    )
    check(done.returncode == 0, f"{pathlib.Path(str(arguments[0])).name}: {done.stdout}{done.stderr}")
    return done.stdout
