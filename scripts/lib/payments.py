"""The simulated payment processor, as its owner, its customers and its bank use it, and the
payments there."""

import json
import time
import urllib.parse
import urllib.request

from lib.processes import CALL_TIMEOUT_S, WAIT_S, check, fetch

# What `config/default.toml` sells, and the cards that pay for it.
PACK, PLAN = "pack_10", "plan_studio"
GOOD_CARD = "4242424242424242"
# Its bank requires authentication each time.
ASKING_CARD = "4000002760003184"
# The reasons of invoices that pay for a whole month.
PERIODS = ("subscription_create", "subscription_cycle")
# Many events are sent one after the other.
CONTROL_TIMEOUT_S = 300


class Processor:
    """The processor of the simulated platforms."""

    def __init__(self, platforms):
        self.facts = platforms.processor
        self.controls = f"{platforms.url}/control/processor"

    def settings(self, **more):
        """The configuration section of a service that uses it."""
        facts = self.facts
        keys = {name: facts[name] for name in ("base_url", "js_url", "secret_key", "publishable_key")}
        return {**keys, "webhook_secrets": facts["webhook_secrets"], **more}

    # Its pages and its API.

    def control(self, path, body=None):
        return fetch(f"{self.controls}/{path}", body=body, timeout_s=CONTROL_TIMEOUT_S)

    def api(self, method, path):
        """A response of the API to its owner."""
        authorization = {"Authorization": f"Bearer {self.facts['secret_key']}"}
        request = urllib.request.Request(f"{self.facts['base_url']}/v1/{path}", method=method, headers=authorization)
        with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as answer:
            return json.load(answer)

    def all(self, kind, **query):
        """Everything of a kind."""
        found = []
        while True:
            page = self.api("GET", f"{kind}?{urllib.parse.urlencode({'limit': 100, **query})}")
            found.extend(page["data"])
            if not page["has_more"]:
                return found
            query["starting_after"] = found[-1]["id"]

    def pay_page(self, session, card=GOOD_CARD):
        """Pays on a page as a customer; returns the payment, or the new subscription."""
        paid = self.control(f"checkout/{session}/pay", {"card": card, "authenticate": True})
        check(paid["status"] == "complete", f"{session} is not paid: {paid}")
        return paid["payment_intent"] or paid["subscription"]

    # Faults.

    def hang(self, kind, method, path):
        """Makes the next request of this kind be carried out (`hang_after`) or not (`hang_before`),
        and never get a response."""
        self.control("switches", {"kind": kind, "method": method, "path": path})

    def wait_for_hanging(self):
        """Waits until every request that was to hang has arrived."""
        end = time.monotonic() + WAIT_S
        while self.control("switches")["switches"]:
            check(time.monotonic() < end, f"not requested: {self.control('switches')}")
            time.sleep(0.002)

    def mend(self):
        request = urllib.request.Request(f"{self.controls}/switches", method="DELETE")
        urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S).close()

    # Payments.

    def paid_intents(self):
        """Payments of orders: (id, order, our customer)."""
        intents = self.all("payment_intents")
        return [
            (intent["id"], intent["metadata"]["order_id"], intent["metadata"]["customer_id"])
            for intent in intents
            if intent["status"] == "succeeded" and "order_id" in intent["metadata"]
        ]

    def paid_months(self):
        """Invoices that paid for a month: (id, the processor's customer)."""
        invoices = self.all("invoices", status="paid")
        return [(invoice["id"], invoice["customer"]) for invoice in invoices if invoice["billing_reason"] in PERIODS]
