"""What a built program needs of the machine that it runs on."""

import re
import subprocess

# Part of every system with the GNU C library. Anything else would have to be a dependency of its own.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def shared_libraries(program):
    said = subprocess.run(["readelf", "--dynamic", "--wide", program], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", said))


def oldest_libc(program):
    """The oldest version of the C library that has all symbols of the program, such as `2.34`."""
    said = subprocess.run(["readelf", "--version-info", "--wide", program], check=True, capture_output=True, text=True).stdout
    versions = {tuple(map(int, each.split("."))) for each in re.findall(r"GLIBC_(\d+(?:\.\d+)+)", said)}
    return ".".join(map(str, max(versions)))
