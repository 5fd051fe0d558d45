"""The compose file and the manifests of Kubernetes: their schemas, what they refer to, and the settings
that they give the service."""

import re

from checks import DEPLOY
from processes import check

KUBERNETES = DEPLOY / "kubernetes"
COMPOSE = DEPLOY / "container/compose.yaml"
PREFIX = "CREATOR_GATEWAY__"
# The examples have no secrets, or some that are refused, so that nobody forgets to make them.
MASTER_KEY = "1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
SECRETS = {"MASTER_KEYS": MASTER_KEY, "DATABASE_PASSWORD": "secret", "STORAGE_KEY": "key", "STORAGE_SECRET": "secret"}


def example_variables():
    lines = (DEPLOY / "container/example.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def compose(checks):
    checks.schema("compose", COMPOSE)
    variables = example_variables()
    named = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text()))
    check(named == set(variables), f"compose.yaml and example.env name different variables: {named ^ set(variables)}")
    check(not any(variables[name] for name in SECRETS), "example.env has a secret that everybody knows")
    variables |= SECRETS

    def filled(value):
        return re.sub(r"\$\{(\w+):\?\}", lambda found: variables[found.group(1)], value)

    services = checks.load(COMPOSE)[0]["services"]
    for name, service in services.items():
        image = service.get("image", "")
        check("build" in service or re.search(r":[\w.-]*\d", image), f"{name} has no version of its image: {image}")
    environment = {name: filled(value) for name, value in services["gateway"]["environment"].items()}
    checks.configuration("compose", "", environment)
    return len(services)


def kubernetes(checks):
    kustomization = checks.load(KUBERNETES / "kustomization.yaml")[0]
    manifests = [KUBERNETES / name for name in kustomization["resources"]]
    secret = KUBERNETES / "secret.example.yaml"
    others = {path.name for path in KUBERNETES.iterdir()} - {path.name for path in manifests}
    check(others == {"kustomization.yaml", secret.name}, f"kustomization.yaml names other files than there are: {others}")
    checks.schema("kubernetes", *manifests, secret)
    found = {each["kind"]: each for each in checks.load(*manifests, secret)}
    settings, secrets = found["ConfigMap"]["data"]["gateway.toml"], found["Secret"]["stringData"]
    check(all(name.startswith(PREFIX) for name in secrets), "a secret is not a setting of the service")
    secrets = {**secrets, f"{PREFIX}ADMIN__TOKEN": "0123456789abcdef" * 2, f"{PREFIX}SECRETS__MASTER_KEYS": MASTER_KEY}
    checks.configuration("kubernetes", settings, secrets)
    pod(found)
    return len(found)


def pod(found):
    """What the deployment names exists, and it stops no sooner than the service does."""
    deployment = found["Deployment"]["spec"]["template"]
    container = deployment["spec"]["containers"][0]
    ports = {port["name"] for port in container["ports"]}
    targets = {port["targetPort"] for port in found["Service"]["spec"]["ports"]}
    targets |= {container[kind]["httpGet"]["port"] for kind in ("startupProbe", "readinessProbe", "livenessProbe")}
    targets |= {port["port"] for rule in found["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]}
    check(targets == ports, f"the ports {targets ^ ports} are not those of the container")
    volumes = {volume["name"] for volume in deployment["spec"]["volumes"]}
    check(volumes == {mount["name"] for mount in container["volumeMounts"]}, "volumes and their mounts differ")
    for kind in ("Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"):
        specification = found[kind]["spec"]
        selector = specification.get("selector") or specification["podSelector"]
        labels = selector.get("matchLabels", selector)
        check(labels.items() <= deployment["metadata"]["labels"].items(), f"{kind} selects other pods: {labels}")
    check(container["securityContext"]["readOnlyRootFilesystem"], "the container can write to its image")


def run(checks):
    """Checks all of it; like every check of packages, returns how much of each kind there was."""
    return {"services of the compose file": compose(checks), "manifests": kubernetes(checks)}
