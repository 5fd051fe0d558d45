"""Every call that the service makes to the payment processor, made with the processor's own library
for Python."""

import json
import time
import urllib.request

import stripe
import types_of_params as types

# Only a call that hangs takes so long.
TIMEOUT_S = 120
VERSION = "2026-03-25.dahlia"


class Failure(Exception):
    """Something differs from what the library expects."""


def check(condition, message):
    if not condition:
        raise Failure(message)


def control(base, path, body):
    request = urllib.request.Request(f"{base}/control/processor/{path}", data=json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def refused(call, kind, **fields):
    """Makes a call that must be refused in a form that the library recognizes."""
    try:
        call()
    except kind as error:
        for name, expected in fields.items():
            found = getattr(error, name, None) if hasattr(error, name) else getattr(error.error, name, None)
            check(found == expected, f"{name} is {found!r}, not {expected!r}: {error}")
        return error
    raise Failure(f"the call was not refused with {kind.__name__}")


def run(base, secret_key):
    client = stripe.StripeClient(
        secret_key, base_addresses={"api": base}, stripe_version=VERSION, max_network_retries=0
    )
    processor = client.v1
    card = customers(processor)
    intents(processor, *card)
    packs(processor, base, card[0])
    months(processor, base)
    balances(processor, base)
    discounts(processor, base)
    companies(processor, base)
    money_back(processor, base, *card)
    refused(lambda: stripe.StripeClient("sk_test_no", base_addresses={"api": base}).v1.customers.list(), stripe.AuthenticationError)


def customers(processor):
    made = processor.customers.create(
        {"email": "ada@example.com", "metadata": {"customer_id": "cus_ours"}}, {"idempotency_key": "cus:1"}
    )
    again = processor.customers.create(
        {"email": "ada@example.com", "metadata": {"customer_id": "cus_ours"}}, {"idempotency_key": "cus:1"}
    )
    check(made.id == again.id, "the same key made two customers")
    refused(
        lambda: processor.customers.create({"email": "bob@example.com"}, {"idempotency_key": "cus:1"}),
        stripe.IdempotencyError,
    )
    method = processor.payment_methods.attach("pm_card_visa", {"customer": made.id})
    default = {"invoice_settings": {"default_payment_method": method.id}}
    changed = processor.customers.update(made.id, default)
    check(changed.invoice_settings.default_payment_method == method.id, "the card is not the default")
    check(processor.customers.retrieve(made.id).metadata["customer_id"] == "cus_ours", "metadata is lost")
    cards = processor.customers.payment_methods.list(made.id, {"type": "card", "limit": 10})
    check([one.id for one in cards.data] == [method.id], "the card is not listed")
    check(processor.payment_methods.retrieve(method.id).card.last4 == "4242", "another card")
    other = processor.payment_methods.attach("pm_card_mastercard", {"customer": made.id})
    check(processor.payment_methods.detach(other.id).customer is None, "it is not detached")
    refused(lambda: processor.payment_methods.detach(other.id), stripe.InvalidRequestError)
    refused(
        lambda: processor.payment_methods.attach("pm_card_chargeDeclined", {"customer": made.id}),
        stripe.CardError, code="card_declined", decline_code="generic_decline",
    )
    refused(lambda: processor.customers.retrieve("cus_none"), stripe.InvalidRequestError, code="resource_missing", http_status=404)
    return made.id, method.id


def charge(customer, method, order, **more):
    return {
        "amount": 1000, "currency": "usd", "customer": customer, "payment_method": method, "confirm": True,
        "payment_method_types": ["card"], "metadata": {"order_id": order}, **more,
    }


def intents(processor, customer, method):
    paid = processor.payment_intents.create(charge(customer, method, "ord_1"), {"idempotency_key": "pi:ord_1"})
    check(paid.status == "succeeded" and paid.amount_received == 1000, f"it is {paid.status}")
    expand = {"expand": ["payment_method", "latest_charge"]}
    shown = processor.payment_intents.retrieve(paid.id, expand)
    check(shown.latest_charge.paid and shown.payment_method.card.brand == "visa", "nothing is expanded")
    wants = processor.payment_methods.attach("pm_card_authenticationRequired", {"customer": customer})
    there = processor.payment_intents.create(charge(customer, wants.id, "ord_2"))
    check(there.status == "requires_action" and there.next_action.type == "use_stripe_sdk", there.status)
    error = refused(
        lambda: processor.payment_intents.create(charge(customer, wants.id, "ord_3", off_session=True)),
        stripe.CardError, code="authentication_required", http_status=402,
    )
    intent = error.error.payment_intent
    check(intent["status"] == "requires_payment_method", intent["status"])
    again = processor.payment_intents.confirm(intent["id"], {"payment_method": wants.id, "off_session": False})
    check(again.status == "requires_action", again.status)
    check(processor.payment_intents.cancel(again.id).status == "canceled", "it is not cancelled")
    poor = processor.payment_methods.attach("pm_card_chargeCustomerFail", {"customer": customer})
    refused(
        lambda: processor.payment_intents.create(charge(customer, poor.id, "ord_4", off_session=True)),
        stripe.CardError, code="card_declined", decline_code="generic_decline",
    )
    found = processor.payment_intents.search({"query": "metadata['order_id']:'ord_1'", "limit": 100})
    check([one.id for one in found.data] == [paid.id], "the search finds others")
    since = {"customer": customer, "limit": 2, "created": {"gte": int(time.time()) - 600}}
    all_of_them = [one.id for one in processor.payment_intents.list(since).auto_paging_iter()]
    check(len(all_of_them) == 4 and paid.id in all_of_them, f"{len(all_of_them)} intents are listed")
    refused(
        lambda: processor.payment_intents.create({"amount": 10, "currency": "usd"}),
        stripe.InvalidRequestError, code="amount_too_small", param="amount",
    )
    refused(
        lambda: processor.payment_intents.create({"amount": 1000, "currency": "usd", "colour": "red"}),
        stripe.InvalidRequestError, code="parameter_unknown", param="colour",
    )


def packs(processor, base, customer):
    pack = {
        "mode": "payment", "customer": customer, "client_reference_id": "ord_5", "payment_method_types": ["card"],
        "success_url": "http://127.0.0.1:1/ok?session_id={CHECKOUT_SESSION_ID}", "cancel_url": "http://127.0.0.1:1/no",
        "line_items": [{
            "quantity": 1,
            "price_data": {"currency": "usd", "unit_amount": 2500, "product_data": {"name": "13,500 credits"}},
        }],
        "metadata": {"order_id": "ord_5"},
        "payment_intent_data": {"setup_future_usage": "off_session", "metadata": {"order_id": "ord_5"}},
    }
    session = processor.checkout.sessions.create(pack, {"idempotency_key": "co:ord_5"})
    check(session.status == "open" and session.url.startswith("http"), "it has no page")
    control(base, f"checkout/{session.id}/pay", {"card": "4242424242424242"})
    paths = ["payment_intent.payment_method", "setup_intent.payment_method"]
    done = processor.checkout.sessions.retrieve(session.id, {"expand": paths})
    check(done.payment_status == "paid" and done.url is None, done.payment_status)
    check(done.payment_intent.payment_method.customer == customer, "the card is not saved")
    other = processor.checkout.sessions.create(pack)
    check(processor.checkout.sessions.expire(other.id).status == "expired", "it is not expired")
    listed = processor.checkout.sessions.list({"customer": customer})
    check({one.id for one in listed.data} == {session.id, other.id}, "the list is another")


def months(processor, base):
    customer = processor.customers.create({"email": "bob@example.com"}).id
    slot = processor.products.create({"id": "slot_product_py", "name": "Slot", "metadata": {"platform": "alpha"}})
    check(processor.products.retrieve(slot.id).name == "Slot", "another product")
    price = processor.prices.create({
        "product": slot.id, "unit_amount": 1500, "currency": "usd", "recurring": {"interval": "month"},
        "lookup_key": "slot_alpha_py",
    })
    check(processor.prices.retrieve(price.id).unit_amount == 1500, "another price")
    found = processor.prices.list({"lookup_keys": ["slot_alpha_py"], "active": True})
    check([one.id for one in found.data] == [price.id], "the price is not found by its key")
    session = processor.checkout.sessions.create({
        "mode": "subscription", "customer": customer, "success_url": "http://127.0.0.1:1/ok",
        "line_items": [{"quantity": 1, "price_data": {
            "currency": "usd", "unit_amount": 4900, "product_data": {"name": "Studio"}, "recurring": {"interval": "month"},
        }}],
        "subscription_data": {"metadata": {"customer_id": "c2"}},
    })
    subscription_id = control(base, f"checkout/{session.id}/pay", {})["subscription"]
    subscription = processor.subscriptions.retrieve(subscription_id, {"expand": ["latest_invoice"]})
    check(subscription.status == "active" and subscription.latest_invoice.billing_reason == "subscription_create", subscription.status)
    end = subscription["items"].data[0].current_period_end
    date = int(time.time())
    items = [{"price": price.id, "quantity": 2}]
    preview = processor.invoices.create_preview({
        "subscription": subscription_id,
        "subscription_details": {"items": items, "proration_behavior": "always_invoice", "proration_date": date},
    })
    raised = processor.subscriptions.update(subscription_id, {
        "items": items, "proration_behavior": "always_invoice", "payment_behavior": "error_if_incomplete",
        "off_session": True, "proration_date": date, "expand": ["latest_invoice"],
    }, {"idempotency_key": "slot:py"})
    invoice = raised.latest_invoice
    check(invoice.status == "paid" and invoice.billing_reason == "subscription_update", invoice.status)
    check(invoice.total == preview.total, f"it cost {invoice.total}, the preview said {preview.total}")
    check(all(item.current_period_end == end for item in raised["items"].data), "the billing date moved")
    shown = processor.invoices.retrieve(invoice.id, {"expand": ["payments"]})
    intent = shown.payments.data[0].payment.payment_intent
    payments = processor.invoice_payments.list({"payment": {"type": "payment_intent", "payment_intent": intent}})
    check(payments.data[0].invoice == invoice.id, "another invoice")
    listed = processor.invoices.list({"customer": customer, "subscription": subscription_id})
    check(len(listed.data) == 2, f"{len(listed.data)} invoices are listed")
    poor = processor.payment_methods.attach("pm_card_chargeCustomerFail", {"customer": customer})
    processor.subscriptions.update(subscription_id, {"default_payment_method": poor.id})
    item = next(item for item in raised["items"].data if item.price.id == price.id)
    refused(lambda: processor.subscriptions.update(subscription_id, {
        "items": [{"id": item.id, "quantity": 5}], "proration_behavior": "always_invoice",
        "payment_behavior": "error_if_incomplete", "off_session": True,
    }), stripe.CardError, code="card_declined", http_status=402)
    unchanged = processor.subscriptions.retrieve(subscription_id)
    check(next(one for one in unchanged["items"].data if one.id == item.id).quantity == 2, "the refused change applies")
    control(base, "clock", {"advance_months": 1})
    owed = processor.subscriptions.retrieve(subscription_id, {"expand": ["latest_invoice"]})
    check(owed.status == "past_due" and owed.latest_invoice.status == "open", owed.status)
    good = processor.payment_methods.attach("pm_card_visa", {"customer": customer})
    paid = processor.invoices.pay(owed.latest_invoice.id, {"payment_method": good.id})
    check(paid.status == "paid", paid.status)
    check(processor.subscriptions.retrieve(subscription_id).status == "active", "it is still owed")
    refused(lambda: processor.invoices.void_invoice(paid.id), stripe.InvalidRequestError)
    configuration = processor.billing_portal.configurations.create({"features": {
        "payment_method_update": {"enabled": True}, "invoice_history": {"enabled": True},
        "subscription_cancel": {"enabled": True, "mode": "at_period_end"}, "subscription_update": {"enabled": False},
    }})
    portal = processor.billing_portal.sessions.create(
        {"customer": customer, "return_url": "http://127.0.0.1:1/back", "configuration": configuration.id}
    )
    check(portal.url.startswith("http"), "the portal has no page")
    lowered = processor.subscriptions.update(subscription_id, {
        "items": [{"id": item.id, "quantity": 1}], "proration_behavior": "create_prorations", "cancel_at_period_end": True,
    })
    check(lowered.cancel_at_period_end, "it does not end")
    check(processor.subscriptions.list({"customer": customer}).data[0].id == subscription_id, "it is not listed")
    check(processor.subscriptions.cancel(subscription_id).status == "canceled", "it is not cancelled")


def subscriber(processor, price, **more):
    customer = processor.customers.create({"email": "eve@example.com"}).id
    method = processor.payment_methods.attach("pm_card_visa", {"customer": customer}).id
    made = processor.subscriptions.create({
        "customer": customer, "default_payment_method": method, "items": [{"price": price}],
        "expand": ["latest_invoice"], **more,
    })
    return customer, made


def balances(processor, base):
    price = processor.prices.create({
        "product_data": {"name": "Balance"}, "unit_amount": 4900, "currency": "usd", "recurring": {"interval": "month"},
        "metadata": {"plan_id": "plan_py"},
    })
    found = processor.prices.search({"query": "active:'true' AND metadata['plan_id']:'plan_py'", "limit": 100})
    check([one.id for one in found.data] == [price.id], "the price is not found by its metadata")
    customer, subscription = subscriber(processor, price.id)
    credit = {"amount": -900, "currency": "usd", "description": "Twice", "metadata": {"sale": "s"}}
    moved = processor.customers.balance_transactions.create(customer, credit, {"idempotency_key": "credit:py"})
    check(moved.ending_balance == -900 and moved.type == "adjustment", f"the balance is {moved.ending_balance}")
    check(processor.customers.balance_transactions.retrieve(customer, moved.id).amount == -900, "another movement")
    control(base, f"customers/{customer}/cards", {"works": False})
    control(base, "clock", {"advance_months": 1})
    invoices = processor.invoices.list({"customer": customer, "status": "open"})
    check([one.amount_due for one in invoices.data] == [4000], "the credit does not pay first")
    owed = invoices.data[0]
    check((owed.starting_balance, owed.ending_balance) == (-900, 0), "the balance is not on the invoice")
    refused(lambda: processor.invoices.pay(owed.id, {"off_session": True}), stripe.CardError, http_status=402)
    check(processor.invoices.void_invoice(owed.id).status == "void", "it is not void")
    check(processor.customers.retrieve(customer).balance == -900, "the credit is lost")
    kinds = [one.type for one in processor.customers.balance_transactions.list(customer).data]
    check(kinds == ["unapplied_from_invoice", "applied_to_invoice", "adjustment"], f"the balance was moved by {kinds}")
    item = subscription["items"].data[0]
    waits = {"items": [{"id": item.id, "quantity": 2}], "proration_behavior": "create_prorations"}
    processor.subscriptions.update(subscription.id, waits)
    waiting = processor.invoice_items.list({"customer": customer, "pending": True})
    sums = sorted(one.net_amount for one in waiting.data)
    check(len(sums) == 2 and -4900 <= sums[0] < 0 and 4800 < sum(sums) <= 4900, f"{sums} wait")


def discounts(processor, base):
    half = processor.coupons.create({"percent_off": 50, "duration": "forever", "name": "Half"})
    check(processor.coupons.retrieve(half.id).percent_off == 50, "another coupon")
    control(base, "rules", {"tax_bp": 1000})
    price = processor.prices.create({
        "product_data": {"name": "Discount"}, "unit_amount": 1000, "currency": "usd", "recurring": {"interval": "month"},
    })
    mode = {"type": "flexible", "flexible": {"proration_discounts": "itemized"}}
    _, subscription = subscriber(processor, price.id, discounts=[{"coupon": half.id}], billing_mode=mode)
    invoice = subscription.latest_invoice
    sums = (invoice.subtotal, invoice.total_excluding_tax, invoice.total_taxes[0].amount, invoice.total)
    check(sums == (1000, 500, 50, 550), f"the sums are {sums}")
    off = invoice.lines.data[0].discount_amounts
    check([one.amount for one in off] == [500], "the line has another discount")
    shown = processor.subscriptions.retrieve(subscription.id, {"expand": ["discounts"]})
    check(shown.discounts[0].source.coupon == half.id, "another discount")
    lines = processor.invoices.line_items.list(invoice.id, {"limit": 1})
    check(lines.data[0].pricing.price_details.price == price.id, "another price")
    control(base, "rules", {"tax_bp": 0})
    check(processor.coupons.delete(half.id).deleted, "it is not deleted")


def page_for_companies(customer):
    """The page on which the service sells a pack when everything in `[billing]` is switched on."""
    named = {"creator_gateway_order_id": "ord_8", "creator_gateway_pack_id": "pack_10", "order_id": "ord_8"}
    return {
        "mode": "payment", "customer": customer, "client_reference_id": "ord_8", "payment_method_types": ["card"],
        "success_url": "http://127.0.0.1:1/ok?session_id={CHECKOUT_SESSION_ID}", "cancel_url": "http://127.0.0.1:1/no",
        "metadata": named,
        "payment_intent_data": {"setup_future_usage": "off_session", "metadata": named},
        "automatic_tax": {"enabled": True}, "billing_address_collection": "required",
        "tax_id_collection": {"enabled": True}, "allow_promotion_codes": True,
        "customer_update": {"address": "auto", "name": "auto"},
        "invoice_creation": {"enabled": True, "invoice_data": {"metadata": named}},
        "line_items": [{"quantity": 1, "price_data": {
            "currency": "usd", "unit_amount": 1000, "tax_behavior": "exclusive", "product_data": {"name": "5,000 credits"},
        }}],
    }


def companies(processor, base):
    customer = processor.customers.create({"email": "company@example.com"}).id
    page = page_for_companies(customer)
    types.fits(page, types.params("checkout", "SessionCreateParams"))
    coupon = processor.coupons.create({
        "amount_off": 200, "currency": "usd", "duration": "repeating", "duration_in_months": 2, "max_redemptions": 5,
    })
    code = {
        "promotion": {"type": "coupon", "coupon": coupon.id}, "code": "COMPANY-PY", "max_redemptions": 1,
        "restrictions": {"first_time_transaction": True},
    }
    types.fits(code, types.params(None, "PromotionCodeCreateParams"))
    made = processor.promotion_codes.create(code)
    check(made.promotion.coupon == coupon.id and made.active, "another code")
    session = processor.checkout.sessions.create(page, {"idempotency_key": "co:ord_8"})
    check(session.automatic_tax.status == "requires_location_inputs", session.automatic_tax.status)
    control(base, f"checkout/{session.id}/pay", {
        "country": "DE", "name": "Ada GmbH", "promotion_code": "company-py",
    })
    paths = ["line_items", "payment_intent.payment_method", "payment_intent.latest_charge", "setup_intent.payment_method"]
    done = processor.checkout.sessions.retrieve(session.id, {"expand": paths})
    sums = (done.amount_subtotal, done.total_details.amount_discount, done.total_details.amount_tax, done.amount_total)
    check(sums == (1000, 200, 152, 952), f"the sums are {sums}")
    check([line.quantity for line in done.line_items.data] == [1], "another number of packs")
    check(done.payment_intent.latest_charge.receipt_url.startswith("http"), "there is no receipt")
    invoice = processor.invoices.retrieve(done.invoice, {"expand": ["payments"]})
    check(invoice.metadata["creator_gateway_order_id"] == "ord_8", "the invoice does not name the order")
    check((invoice.status, invoice.total, invoice.billing_reason) == ("paid", 952, "manual"), f"it is {invoice.status}")
    check(invoice.payments.data[0].payment.payment_intent == done.payment_intent.id, "another payment")
    check(invoice.lines.data[0].taxes[0].amount == 152, "the line has another tax")
    for url in (invoice.hosted_invoice_url, invoice.invoice_pdf):
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            check(answer.status == 200, f"{url} has status {answer.status}")
    check(not processor.promotion_codes.retrieve(made.id).active, "the code can be used again")
    found = processor.checkout.sessions.list({"payment_intent": done.payment_intent.id})
    check([one.id for one in found.data] == [session.id], "the page is not found by its payment")
    tax_id = processor.customers.tax_ids.create(customer, {"type": "eu_vat", "value": "DE123456789"})
    check([one.id for one in processor.customers.tax_ids.list(customer).data] == [tax_id.id], "another tax id")
    refused(
        lambda: processor.checkout.sessions.create({**page, "customer_update": {"name": "auto"}, "customer": processor.customers.create({}).id}),
        stripe.InvalidRequestError, code="customer_tax_location_invalid",
    )
    offers = {"features": {
        "customer_update": {"enabled": True, "allowed_updates": ["address", "name", "tax_id"]},
        "invoice_history": {"enabled": True},
    }}
    types.fits(offers, types.params("billing_portal", "ConfigurationCreateParams"))
    check(processor.billing_portal.configurations.create(offers).active, "the configuration is not in use")


def money_back(processor, base, customer, method):
    paid = processor.payment_intents.create(charge(customer, method, "ord_6"))
    refund = processor.refunds.create({"payment_intent": paid.id, "amount": 400, "metadata": {"order_id": "ord_6"}})
    check(refund.status == "succeeded" and refund.amount == 400, refund.status)
    check(processor.refunds.retrieve(refund.id).charge == paid.latest_charge, "another charge")
    check(len(processor.refunds.list({"payment_intent": paid.id}).data) == 1, "the refund is not listed")
    rest = processor.charges.retrieve(paid.latest_charge)
    check(rest.amount_refunded == 400 and not rest.refunded, "the charge does not know of it")
    check(len(processor.charges.list({"payment_intent": paid.id}).data) == 1, "the charge is not listed")
    processor.refunds.create({"payment_intent": paid.id})
    refused(
        lambda: processor.refunds.create({"payment_intent": paid.id}),
        stripe.InvalidRequestError, code="charge_already_refunded",
    )
    second = processor.payment_intents.create(charge(customer, method, "ord_7"))
    made = control(base, "disputes", {"payment_intent": second.id})
    dispute = processor.disputes.retrieve(made["id"])
    check(dispute.status == "needs_response" and dispute.payment_intent == second.id, dispute.status)
    control(base, f"disputes/{dispute.id}/close", {"won": True})
    check(processor.disputes.list({"payment_intent": second.id}).data[0].status == "won", "it is not won")
    kinds = ["charge.dispute.created", "charge.dispute.closed"]
    events = processor.events.list({"types": kinds, "limit": 100, "created": {"gte": 1}})
    check({event.type for event in events.data} == set(kinds), "events of other types")
    event = processor.events.retrieve(events.data[0].id)
    check(event.data.object["id"] == dispute.id, "another event")
