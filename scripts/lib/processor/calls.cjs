// The same calls, made with the processor's library for Node, and its handling of signatures. The
// argument says what to do; JSON is read from standard input.
"use strict";
const Stripe = require("stripe");

const VERSION = "2026-03-25.dahlia";

function check(condition, message) {
  if (!condition) throw new Error(message);
}

async function refused(call, type, fields) {
  try {
    await call();
  } catch (error) {
    check(error.type === type, `refused with ${error.type}, not ${type}: ${error.message}`);
    for (const [name, expected] of Object.entries(fields ?? {})) {
      check(error[name] === expected, `${name} is ${error[name]}, not ${expected}`);
    }
    return error;
  }
  throw new Error(`the call was not refused with ${type}`);
}

async function control(base, path, body) {
  const answer = await fetch(`${base}/control/processor/${path}`, { method: "POST", body: JSON.stringify(body) });
  check(answer.ok, `${path} responds ${answer.status}`);
  return answer.json();
}

async function run({ base, secret_key }) {
  const url = new URL(base);
  const stripe = new Stripe(secret_key, {
    host: url.hostname, port: url.port, protocol: "http", apiVersion: VERSION, maxNetworkRetries: 0, telemetry: false,
  });
  const customer = await stripe.customers.create(
    { email: "ada@example.com", metadata: { customer_id: "c1" } }, { idempotencyKey: "cus:node" });
  const method = await stripe.paymentMethods.attach("pm_card_visa", { customer: customer.id });
  await stripe.customers.update(customer.id, { invoice_settings: { default_payment_method: method.id } });
  const cards = await stripe.customers.listPaymentMethods(customer.id, { type: "card", limit: 10 });
  check(cards.data[0].id === method.id, "the card is not listed");
  const charge = (order, more) => ({
    amount: 1000, currency: "usd", customer: customer.id, payment_method: method.id, confirm: true,
    payment_method_types: ["card"], metadata: { order_id: order }, ...more,
  });
  const paid = await stripe.paymentIntents.create(charge("ord_n1"), { idempotencyKey: "pi:node" });
  check(paid.status === "succeeded", paid.status);
  await refused(() => stripe.paymentIntents.create(charge("ord_n2"), { idempotencyKey: "pi:node" }), "StripeIdempotencyError");
  const wants = await stripe.paymentMethods.attach("pm_card_authenticationRequired", { customer: customer.id });
  const away = await refused(
    () => stripe.paymentIntents.create(charge("ord_n3", { payment_method: wants.id, off_session: true })),
    "StripeCardError", { code: "authentication_required", statusCode: 402 });
  check(away.payment_intent.status === "requires_payment_method", away.payment_intent.status);
  const again = await stripe.paymentIntents.confirm(away.payment_intent.id, { payment_method: wants.id });
  check(again.status === "requires_action", again.status);
  await stripe.paymentIntents.cancel(again.id);
  const shown = await stripe.paymentIntents.retrieve(paid.id, { expand: ["latest_charge", "payment_method"] });
  check(shown.latest_charge.paid, "nothing is expanded");
  const found = await stripe.paymentIntents.search({ query: "metadata['order_id']:'ord_n1'" });
  check(found.data.length === 1, "the search finds others");
  let count = 0;
  for await (const intent of stripe.paymentIntents.list({ customer: customer.id, limit: 1 })) count += intent.amount > 0 ? 1 : 0;
  check(count === 2, `${count} intents are listed`);

  const session = await stripe.checkout.sessions.create({
    mode: "subscription", customer: customer.id, success_url: "http://127.0.0.1:1/ok",
    line_items: [{ quantity: 1, price_data: {
      currency: "usd", unit_amount: 4900, product_data: { name: "Studio" }, recurring: { interval: "month" } } }],
  });
  const { subscription: id } = await control(base, `checkout/${session.id}/pay`, {});
  const product = await stripe.products.create({ name: "Slot" });
  const price = await stripe.prices.create({ product: product.id, unit_amount: 1500, currency: "usd", recurring: { interval: "month" } });
  const items = [{ price: price.id, quantity: 3 }];
  const date = (await stripe.subscriptions.retrieve(id)).items.data[0].current_period_start;
  const preview = await stripe.invoices.createPreview({
    subscription: id, subscription_details: { items, proration_behavior: "always_invoice", proration_date: date } });
  const raised = await stripe.subscriptions.update(id, {
    items, proration_behavior: "always_invoice", payment_behavior: "error_if_incomplete", off_session: true,
    proration_date: date, expand: ["latest_invoice.payments"],
  });
  check(raised.latest_invoice.total === 4500 && preview.total === 4500, `it cost ${raised.latest_invoice.total}`);
  check(raised.latest_invoice.payments.data[0].status === "paid", "the invoice is not paid");
  const item = raised.items.data.find((one) => one.price.id === price.id);
  await stripe.subscriptions.update(id, { items: [{ id: item.id, quantity: 1 }], proration_behavior: "create_prorations" });
  const upcoming = await stripe.invoices.createPreview({ subscription: id });
  check(upcoming.total < 4900 + 1500, `the credit is not on the next invoice: ${upcoming.total}`);
  const portal = await stripe.billingPortal.sessions.create({ customer: customer.id, return_url: "http://127.0.0.1:1/back" });
  check(portal.url.startsWith(base), portal.url);
  check((await stripe.subscriptions.cancel(id)).status === "canceled", "it is not cancelled");
  const refund = await stripe.refunds.create({ payment_intent: paid.id });
  check(refund.status === "succeeded", refund.status);
  const events = await stripe.events.list({ types: ["refund.created"], limit: 1 });
  check(events.data[0].data.object.id === refund.id, "the refund's event is missing");
}

// Header lines for bodies, as the library signs them.
function sign({ payload, secret, timestamp, scheme }) {
  return Stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp, scheme });
}

// The type of an event that the library accepts.
function construct({ payload, header, secret }) {
  return Stripe.webhooks.constructEvent(payload, header, secret).type;
}

(async () => {
  const what = process.argv[2];
  const input = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
  const done = what === "run" ? await run(input) : input.map(what === "sign" ? sign : construct);
  process.stdout.write(JSON.stringify(done ?? null));
})().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exitCode = 1;
});
