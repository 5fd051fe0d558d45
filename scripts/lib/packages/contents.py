"""The packages themselves: made twice, unpacked, and checked file by file."""

import filecmp
import gzip
import hashlib
import json
import os
import shutil
import tarfile

import tools
from checks import ROOT
from processes import check

# What systemd must find beside the unit in order to check it alone.
TARGETS = ["sysinit", "basic", "shutdown", "network-online", "multi-user"]
# systemd's measure, in tenths; units without any restriction have 96.
EXPOSURE_MAX = 15


def make_twice(checks):
    folders = [checks.folder / name for name in ("first", "second")]
    for folder in folders:
        checks.run(ROOT / "scripts/package", "--short", "--binary", checks.program, "--output", folder)
    names = sorted(path.name for path in folders[0].iterdir())
    _, different, missing = filecmp.cmpfiles(*folders, names, shallow=False)
    check(not different and not missing, f"two packages of one program differ: {different} {missing}")
    return folders[0], names


def check_sums(folder, names):
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    for line in lines:
        digest, name = line.split()
        check(hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, f"the checksum of {name} is wrong")
    check(len(lines) == len(names) - 1, "SHA256SUMS does not name every file")


def check_program(checks, tree):
    program = tree / "usr/bin/creator-gateway"
    version = checks.run(program, "--version")
    check(version == checks.run(checks.program, "--version"), f"the packaged program says {version}")
    pages = sorted((tree / "usr/share/man/man1").iterdir())
    for page in pages:
        check(b".TH" in gzip.decompress(page.read_bytes()), f"{page.name} is not a manual page")
    names = {page.name for page in pages}
    check({"creator-gateway.1.gz", "creator-gateway-serve.1.gz"} <= names, "manual pages are missing")
    check(not any("completions" in name for name in names), "a hidden command has a manual page")
    completions = tree / "usr/share/bash-completion/completions/creator-gateway"
    said = checks.run("bash", "-c", 'source "$1" && complete -p creator-gateway', "bash", completions)
    check("-F _creator" in said, "bash has no completions")


def check_unit(checks, tree):
    """systemd reads the unit as it is installed, in a folder that has what it refers to."""
    analyze = tools.systemd_analyze()
    units = tree / "lib/systemd/system"
    for target in TARGETS:
        (units / f"{target}.target").write_text(f"[Unit]\nDescription={target}\n")
    kill = tree / "bin/kill"
    kill.parent.mkdir()
    shutil.copyfile(tree / "usr/bin/creator-gateway", kill)
    kill.chmod(0o755)
    unit = "creator-gateway.service"
    said = checks.run(analyze, f"--root={tree}", "--man=no", "verify", unit)
    check(not said.strip(), f"systemd finds in the unit:\n{said}")
    checks.run(analyze, f"--root={tree}", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", "security", unit)


def check_bill(checks, path):
    checks.schema("sbom", path)
    bill = json.loads(path.read_text())
    names = {each["name"] for each in bill["components"]}
    check({"tokio", "sqlx", "rustls", "domain", "gateway"} <= names, "the bill of materials lacks libraries")
    check("proptest" not in names, "the bill of materials has what only tests use")
    unlicensed = [each["name"] for each in bill["components"] if "licenses" not in each]
    check(not unlicensed, f"without a license: {unlicensed}")
    known = {each["bom-ref"] for each in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    check({each["ref"] for each in bill["dependencies"]} == known, "the graph has other parts than the list")


def check_debian(checks, package, tree):
    checks.run("dpkg-deb", "--raw-extract", package, tree)
    fields = checks.run("dpkg-deb", "--field", package)
    check("${" not in fields, f"a field was not filled in:\n{fields}")
    for line in (tree / "DEBIAN/md5sums").read_text().splitlines():
        digest, name = line.split("  ", 1)
        check(hashlib.md5((tree / name).read_bytes()).hexdigest() == digest, f"the checksum of {name} is wrong")
    for name in ("postinst", "prerm", "postrm"):
        checks.run("sh", "-n", tree / "DEBIAN" / name)
        check(os.access(tree / "DEBIAN" / name, os.X_OK), f"{name} cannot be run")
    settings = tree / "etc/creator-gateway"
    for name in ("gateway.toml", "environment"):
        check((settings / name).stat().st_mode & 0o007 == 0, f"everybody can read {name}")
    checks.configuration("debian", (settings / "gateway.toml").read_text(), {})


def run(checks):
    folder, names = make_twice(checks)
    check_sums(folder, names)
    tree = checks.folder / "tree"
    check_debian(checks, next(folder.glob("*.deb")), tree)
    check_program(checks, tree)
    check_unit(checks, tree)
    check_bill(checks, next(folder.glob("*.cdx.json")))
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        packed = archive.getnames()
    check(any(name.endswith("/usr/bin/creator-gateway") for name in packed), "the tarball lacks the program")
    check(any(name.endswith("/LICENSE") for name in packed), "the tarball lacks the license")
    return {"packages": len(names), "files in them": len(packed)}
