"""What the program is made of: a bill of materials in CycloneDX 1.5, from Cargo's own records."""

import json
import re
import subprocess
import tomllib
import uuid


def _cargo(root, *arguments):
    done = subprocess.run(["cargo", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout


def _linked(root, target):
    """Names and versions of all packages that are linked into the program: no build or test dependencies, no unused
    features."""
    tree = _cargo(
        root, "tree", "--package", "cli", "--edges", "normal", "--target", target, "--prefix", "none", "--locked",
        "--format", "{p}",
    )
    return {tuple(line.split()[:2]) for line in tree.splitlines() if " v" in line and "(proc-macro)" not in line}


def _component(package, reference, checksums):
    component = {
        "type": "library",
        "bom-ref": reference,
        "name": package["name"],
        "version": package["version"],
        "purl": reference,
    }
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["license"]:
        # Old packages write "MIT/Apache-2.0".
        component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if package["repository"]:
        component["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return component


def write_bill(root, target, timestamp):
    """The bill of materials as text, the same for the same sources."""
    metadata = json.loads(_cargo(root, "metadata", "--format-version", "1", "--locked", "--filter-platform", target))
    lock = tomllib.loads((root / "Cargo.lock").read_text())
    checksums = {(each["name"], each["version"]): each.get("checksum") for each in lock["package"]}
    linked = _linked(root, target)
    packages = {
        each["id"]: each for each in metadata["packages"] if (each["name"], f"v{each['version']}") in linked
    }
    references = {key: f"pkg:cargo/{each['name']}@{each['version']}" for key, each in packages.items()}
    program = next(key for key, each in packages.items() if each["name"] == "cli")
    ordered = sorted(packages, key=references.get)
    dependencies = [
        {
            "ref": references[node["id"]],
            "dependsOn": sorted({references[each["pkg"]] for each in node["deps"] if each["pkg"] in packages} - {
                references[node["id"]]
            }),
        }
        for node in metadata["resolve"]["nodes"]
        if node["id"] in packages
    ]
    main = _component(packages[program], references[program], {})
    main.update(type="application", name="creator-gateway")
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": timestamp, "component": main},
        "components": [_component(packages[key], references[key], checksums) for key in ordered if key != program],
        "dependencies": sorted(dependencies, key=lambda each: each["ref"]),
    }
    # The number is that of the contents.
    content = json.dumps(bill, sort_keys=True)
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}"
    return json.dumps(bill, indent=1) + "\n"


def host_target(root):
    """The target that Cargo builds for on this machine."""
    return re.search(r"^host: (\S+)", subprocess.run(
        ["rustc", "-vV"], cwd=root, check=True, capture_output=True, text=True
    ).stdout, re.M).group(1)
