"""Alert rules and the dashboard, by Prometheus' own checker. The tidy test compares the metrics that
they name with those of the service."""

import json

import tools
from checks import DEPLOY

# What Grafana fills in.
VARIABLES = {"$__rate_interval": "5m", "$instance": ".*"}


def expressions():
    panels = json.loads((DEPLOY / "monitoring/dashboard.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def dashboard_rules():
    """The dashboard's queries as rules, which promtool can parse."""
    rules = []
    for number, expression in enumerate(expressions()):
        for name, value in VARIABLES.items():
            expression = expression.replace(name, value)
        rules.append({"record": f"dashboard_{number}", "expr": expression})
    return {"groups": [{"name": "dashboard", "rules": rules}]}


def run(checks):
    promtool = tools.promtool()
    folder = DEPLOY / "monitoring"
    checks.run(promtool, "check", "rules", folder / "alerts.yml")
    checks.run(promtool, "test", "rules", folder / "alerts-test.yml", cwd=folder)
    queries = checks.folder / "dashboard.json"
    # JSON is YAML as well.
    queries.write_text(json.dumps(dashboard_rules()))
    checks.run(promtool, "check", "rules", queries)
    rules = sum(len(group["rules"]) for group in checks.load(folder / "alerts.yml")[0]["groups"])
    tests = len(checks.load(folder / "alerts-test.yml")[0]["tests"])
    return {"alert rules": rules, "tests of them": tests, "queries of the dashboard": len(expressions())}
