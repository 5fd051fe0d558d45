"""Workflows, versions and notes of releases."""

import re
import tomllib

from checks import DEPLOY, ROOT
from processes import check

WORKFLOWS = ROOT / ".github/workflows"


def workflows(checks):
    files = sorted(WORKFLOWS.glob("*.yml"))
    checks.schema("workflow", *files)
    for file in files:
        for action in re.findall(r"uses: (\S+)", file.read_text()):
            check(re.search(r"@[0-9a-f]{40}$", action), f"{file.name}: {action} is not pinned by hash")
        for script in re.findall(r"(?<![\w/.])(scripts/[\w-]+|\.ci/run)", file.read_text()):
            check((ROOT / script).exists(), f"{file.name}: there is no {script}")
        workflow = checks.load(file)[0]
        check("permissions" in workflow, f"{file.name} takes all permissions")
        for name, job in workflow["jobs"].items():
            check("timeout-minutes" in job, f"{file.name}: {name} may run forever")
    check(".ci/run" in (WORKFLOWS / "ci.yml").read_text(), "ci.yml does not run .ci/run")
    return len(files)


def versions():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    toolchain = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
    oldest = workspace["rust-version"]
    check(toolchain == oldest or toolchain.startswith(f"{oldest}."), f"checks run with {toolchain}, and promise {oldest}")
    tag = re.search(r"newTag: (\S+)", (DEPLOY / "kubernetes/kustomization.yaml").read_text()).group(1)
    check(tag == workspace["version"], f"kustomization.yaml names version {tag}")
    return workspace["version"]


def changelog(version):
    """Every version has a section with its date, the newest first; all of it is preceded by what is not released."""
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.+)$", text, re.M)
    check(headings and headings[0] == "[Unreleased]", "CHANGELOG.md has no section [Unreleased]")
    found = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:]]
    check(all(found), f"a heading of CHANGELOG.md is not a version with its date: {headings[1:]}")
    numbers = [tuple(map(int, each.groups())) for each in found]
    check(numbers == sorted(numbers, reverse=True), "the versions in CHANGELOG.md are not in order")
    check(all(each <= tuple(map(int, version.split("."))) for each in numbers), "CHANGELOG.md has a version of the future")


def run(checks):
    changelog(versions())
    return {"workflows": workflows(checks)}
