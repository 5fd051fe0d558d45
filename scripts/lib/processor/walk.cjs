// Buys, subscribes and cancels as a customer does: through the API, and on the processor's pages in
// a real browser. Standard input contains the addresses; screenshots go to the folder that it
// names.
"use strict";
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const { chromium } = require("playwright-core");

// Events arrive within a second; only what never happens takes so long, however slow or busy the machine is.
const PATIENCE_MS = 300_000;
const PACK = { pack_id: "pack_10" };
const PACK_CREDITS = 5_000;
const MONTHLY_CREDITS = 30_000;

const facts = JSON.parse(fs.readFileSync(0, "utf8"));

function check(condition, message) {
  if (!condition) throw new Error(message);
}

// How much was done, by kind; the file that standard input names gets it at the end.
const counts = { steps: 0, requests: 0 };

function say(what) {
  counts.steps += 1;
  process.stdout.write(`browser-test: ${what}: ok\n`);
}

// A request to the service: its status and its JSON.
async function ask(method, route, body) {
  counts.requests += 1;
  const answer = await fetch(`${facts.base_url}/v1/${route}`, {
    method,
    headers: { "X-API-Key": facts.api_key, "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, body: text ? JSON.parse(text) : null };
}

async function done(method, route, body) {
  const { status, body: read } = await ask(method, route, body);
  check(status >= 200 && status < 300, `${method} ${route} responds ${status}: ${JSON.stringify(read)}`);
  return read;
}

async function control(route, body) {
  const answer = await fetch(`${facts.simulators_url}/control/${route}`, { method: "POST", body: JSON.stringify(body) });
  check(answer.ok, `/control/${route} responds ${answer.status}`);
  return answer.json();
}

// Repeats a request until it has the expected result.
async function until(what, look) {
  const deadline = Date.now() + PATIENCE_MS;
  let last;
  do {
    last = await look();
    if (last.ok) return last.value;
    await new Promise((resolve) => setTimeout(resolve, 200));
  } while (Date.now() < deadline);
  throw new Error(`${what} did not happen: ${JSON.stringify(last.value)}`);
}

async function balance() {
  return (await done("GET", "billing")).balance;
}

async function balanceBecomes(expected, what) {
  await until(what, async () => {
    const value = await balance();
    return { ok: value === expected, value };
  });
}

async function shoot(page, name) {
  await page.screenshot({ path: path.join(facts.screenshots, `${name}.png`), fullPage: true });
}

// Presses the button of a test card and then the one that pays.
async function payWith(page, number) {
  const cards = page.locator("details.cards");
  if (!(await cards.evaluate((details) => details.open))) await cards.locator("summary").click();
  await page.locator(`button.fill[data-number="${number}"]`).click();
  await page.locator("button.main").click();
}

async function comesBack(page) {
  await page.waitForURL((url) => url.href.startsWith(facts.base_url), { timeout: PATIENCE_MS });
  return new URL(page.url()).searchParams.get("session_id");
}

// The message of the service's own page to a customer who returns.
async function isTold(page, says, name) {
  await page.getByText(says).first().waitFor();
  await fits(page, says, name);
}

async function fits(page, says, name) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  check(!wide, `the page that says ${says} is wider than the window`);
  if (name) await shoot(page, name);
}

// Buys a pack on the hosted page; returns the id of the page after it.
async function buyPack(page, number, look) {
  const before = await balance();
  const session = await done("POST", "billing/checkout", PACK);
  await page.goto(session.url);
  if (look) await look(page);
  await payWith(page, number);
  if (number.startsWith("40000027")) {
    await page.locator("#complete").click();
  }
  check((await comesBack(page)) === session.session_id, "the return URL does not name the session");
  await isTold(page, "As soon as the payment processor confirms your payment");
  await done("POST", "billing/sync-card", { session_id: session.session_id });
  await balanceBecomes(before + PACK_CREDITS, "the pack's credits");
  const orders = (await done("GET", "billing/orders")).orders;
  check(orders.find((order) => order.order_id === session.order_id).status === "paid", "the order is not paid");
}

// Leaves the hosted page: nothing is charged.
async function leaves(page) {
  const before = await balance();
  const session = await done("POST", "billing/checkout", PACK);
  await page.goto(session.url);
  await page.getByText("Go back without paying").click();
  check((await comesBack(page)) === null, "the return URL of an abandoned checkout names a session");
  await isTold(page, "Nothing was charged", "0-left");
  check((await balance()) === before, "an abandoned checkout granted credits");
  say("an abandoned checkout");
}

async function packOnThePage(page) {
  await buyPack(page, "4242424242424242", async () => {
    await shoot(page, "1-checkout");
    // First another card, which is declined: the page says so and stays open.
    await payWith(page, "4000000000009995");
    await page.locator('[role="alert"]').waitFor();
    check((await page.locator('[role="alert"]').textContent()).includes("insufficient funds"), "the page does not say why");
    await shoot(page, "2-checkout-declined");
  });
  await shoot(page, "2-paid");
  check((await done("GET", "billing/card")).card.last4 === "4242", "the card is not saved");
  say("a pack on the hosted page, after a declined card");
}

async function oneClick() {
  const before = await balance();
  const charged = await done("POST", "billing/charge", PACK);
  check(charged.ok && charged.balance === before + PACK_CREDITS, JSON.stringify(charged));
  say("another with one click");
}

// A page of the merchant with the processor's script, as a console has it.
async function merchantPage(page) {
  const card = await done("GET", "billing/card");
  const html = `<!doctype html><html lang="en"><title>Shop</title><h1>Shop</h1><script src="${card.js_url}"></script></html>`;
  const server = http.createServer((_request, response) => response.setHeader("Content-Type", "text/html").end(html));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForFunction(() => typeof window.Stripe === "function");
  } finally {
    server.close();
    server.closeAllConnections();
  }
  return card.publishable_key;
}

async function confirm(page, key, secret, button, name) {
  const asked = page.evaluate(
    async ([key, secret]) => {
      const result = await window.Stripe(key).confirmCardPayment(secret);
      return { status: result.paymentIntent?.status, code: result.error?.code };
    },
    [key, secret],
  );
  const frame = page.frameLocator('iframe[name="processor-authentication"]');
  await frame.locator(button).waitFor();
  await shoot(page, name);
  await frame.locator(button).click();
  return asked;
}

async function authentication(page) {
  await buyPack(page, "4000002760003184");
  check((await done("GET", "billing/card")).card.last4 === "3184", "the new card is not the saved one");
  const key = await merchantPage(page);
  const before = await balance();
  const wants = await done("POST", "billing/charge", PACK);
  check(wants.requires_action === true, JSON.stringify(wants));
  const early = await ask("POST", "billing/confirm-charge", { pi_id: wants.pi_id });
  check((await balance()) === before, `credits were granted before the payment: ${early.status}`);
  const paid = await confirm(page, key, wants.client_secret, "#complete", "3-authentication");
  check(paid.status === "succeeded", JSON.stringify(paid));
  await done("POST", "billing/confirm-charge", { pi_id: wants.pi_id });
  await done("POST", "billing/confirm-charge", { pi_id: wants.pi_id });
  await balanceBecomes(before + PACK_CREDITS, "the credits of the authenticated charge");
  const again = await done("POST", "billing/charge", PACK);
  const failed = await confirm(page, key, again.client_secret, "#fail", "4-authentication-to-fail");
  check(failed.code === "payment_intent_authentication_failure", JSON.stringify(failed));
  check((await ask("POST", "billing/confirm-charge", { pi_id: again.pi_id })).status !== 200, "a failed payment is confirmed");
  check((await balance()) === before + PACK_CREDITS, "a failed payment granted credits");
  say("a card that requires authentication, completed and failed");
}

// Signs in to the console.
async function signIn(page) {
  await page.goto(`${facts.base_url}/console/login`);
  await page.locator('input[name="email"]').fill(facts.customer.email);
  await page.locator('input[name="password"]').fill(facts.customer.password);
  await page.locator("button.primary").click();
  await page.waitForURL(`${facts.base_url}/console`);
}

// The console charges the saved card: once for two clicks, and after the bank's question.
async function consoleCharges(browser) {
  const page = await browser.newPage({ viewport: { width: 1200, height: 800 } });
  const refused = [];
  page.on("pageerror", (error) => refused.push(String(error)));
  page.on("console", (line) => line.type() === "error" && refused.push(line.text()));
  await signIn(page);
  const before = await balance();
  await page.goto(`${facts.base_url}/console/billing`);
  await page.getByText("Pay now with Visa 3184").dblclick();
  await isTold(page, "Your bank asks you to confirm this payment", "4-console-asks");
  check((await balance()) === before, "credits were granted before the payment");
  await answersTheBank(page, "#complete", "4-console-bank");
  await isTold(page, "Payment received", "4-console-paid");
  await balanceBecomes(before + PACK_CREDITS, "the credits of the charge in the console");
  const plain = await browser.newContext({ javaScriptEnabled: false, storageState: await page.context().storageState() });
  const unscripted = await plain.newPage();
  await unscripted.goto(`${facts.base_url}/console/billing`);
  await unscripted.getByText("Use another card").click();
  await unscripted.waitForURL((url) => url.href.startsWith(facts.processor_url));
  await plain.close();
  check(refused.length === 0, `the page's scripts were blocked: ${refused}`);
  await page.context().close();
  say("the console: a charge that the bank asks about, two clicks that pay once, and the payment page without scripts");
}

async function topUp(page) {
  // With the keyboard only: the fields, and the button with Enter.
  const before = await balance();
  const session = await done("POST", "billing/checkout", PACK);
  await page.goto(session.url);
  await page.locator('input[name="number"]').focus();
  for (const typed of ["4242424242424242", "12/34", "123"]) {
    await page.keyboard.type(typed);
    await page.keyboard.press("Tab");
  }
  await page.locator('input[name="cvc"]').focus();
  await page.keyboard.press("Enter");
  await comesBack(page);
  await done("POST", "billing/sync-card", { session_id: session.session_id });
  await balanceBecomes(before + PACK_CREDITS, "the pack's credits");
  const bought = await balance();
  const set = { enable: true, threshold_credits: bought, pack_id: PACK.pack_id, daily_cap_usd: 50 };
  await done("POST", "billing/autotopup", set);
  await done("GET", `${facts.accounts.platform_alpha}/native/users/me`);
  await balanceBecomes(bought - 1 + PACK_CREDITS, "the top-up");
  // Its credits are above the threshold: further calls do not buy a second one.
  for (let calls = 0; calls < 5; calls += 1) await done("GET", `${facts.accounts.platform_alpha}/native/users/me`);
  await control("processor/deliver", {});
  const orders = (await done("GET", "billing/orders")).orders;
  const topUps = orders.filter((order) => !["checkout", "charge"].includes(order.channel));
  check(topUps.length === 1, `${topUps.length} top-ups: ${JSON.stringify(orders)}`);
  check((await balance()) === bought - 6 + PACK_CREDITS, `the balance is ${await balance()}`);
  await done("POST", "billing/autotopup", { enable: false });
  say("automatic top-up, once");
}

// The newest email to the demo customer: its text and its links.
async function newestEmail() {
  const read = async (route) => (await fetch(`${facts.simulators_url}/control/${route}`)).json();
  const { mails } = await read(`mail?to=${encodeURIComponent(facts.customer.email)}`);
  return mails.length ? read(`mail/${mails.at(-1).id}`) : null;
}

// Presses the page's button, and the bank's in its frame.
async function answersTheBank(page, button, name) {
  await page.locator("[data-start]:enabled").click();
  const frame = page.frameLocator('iframe[name="processor-authentication"]');
  await frame.locator(button).waitFor();
  if (name) await shoot(page, name);
  await frame.locator(button).click();
}

// An automatic charge that the bank wants confirmed, on the page linked from the email.
async function confirmTopUp(page, browser) {
  await buyPack(page, "4000002760003184");
  const before = await balance();
  const set = { enabled: true, threshold_credits: before, pack_id: PACK.pack_id, daily_cap_usd: 50 };
  await done("POST", "billing/autotopup", set);
  await done("GET", `${facts.accounts.platform_alpha}/native/users/me`);
  const pending = await until("a charge that waits", async () => {
    const value = (await done("GET", "billing/autotopup")).pending;
    return { ok: value?.requires_action === true, value };
  });
  const link = await until("the email about it", async () => {
    const value = (await newestEmail())?.links.find((one) => one.includes("/console/pay?token="));
    return { ok: value !== undefined, value };
  });
  check(link.startsWith(facts.base_url), `the email leads to ${link}`);
  // Without scripts the page says what to do.
  const plain = await browser.newPage({ javaScriptEnabled: false });
  await plain.goto(link);
  // The browser's driver does not search texts in <noscript>.
  await plain.locator("noscript p").first().waitFor();
  const told = await plain.locator("main").innerText();
  check(told.includes("requires JavaScript"), `the page without scripts says ${told}`);
  await fits(plain, "needs JavaScript", "4-confirm-without-scripts");
  check(await plain.locator("[data-start]").isHidden(), "a button without effect is shown");
  await plain.close();
  // On a phone: the bank is asked, and the page shows the result.
  const phone = await browser.newPage({ viewport: { width: 390, height: 844 }, colorScheme: "dark" });
  const refused = [];
  phone.on("pageerror", (error) => refused.push(String(error)));
  phone.on("console", (line) => line.type() === "error" && refused.push(line.text()));
  await phone.goto(link);
  await isTold(phone, "10.00 USD", "4-confirm-phone-dark");
  await answersTheBank(phone, "#complete", "4-confirm-bank-phone-dark");
  await isTold(phone, "5,000 credits were added", "4-confirmed-phone-dark");
  check(refused.length === 0, `the page's scripts were blocked: ${refused}`);
  await balanceBecomes(before - 1 + PACK_CREDITS, "the confirmed charge's credits");
  await phone.goto(link);
  await isTold(phone, "5,000 credits were added");
  await phone.close();
  const order = (await done("GET", "billing/orders")).orders.find((one) => one.order_id === pending.order_id);
  check(order.status === "paid", JSON.stringify(order));
  await done("POST", "billing/autotopup", { enabled: false });
  say("an automatic charge confirmed on the page of the email");
}

async function subscribe(browser) {
  const before = await balance();
  const session = await done("POST", "billing/subscribe", { plan_id: "plan_studio" });
  // On a phone, in dark mode.
  const phone = await browser.newPage({ viewport: { width: 390, height: 844 }, colorScheme: "dark", deviceScaleFactor: 2 });
  await phone.goto(session.url);
  await shoot(phone, "5-subscribe-phone-dark");
  const wide = await phone.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  check(!wide, "the page is wider than a phone");
  await payWith(phone, "4242424242424242");
  await comesBack(phone);
  await isTold(phone, "As soon as the payment processor confirms your payment", "5-subscribed-phone-dark");
  await phone.goto(`${facts.base_url}/console/billing/return`);
  await isTold(phone, "takes effect in a moment", "5-back-phone-dark");
  await phone.close();
  await balanceBecomes(before + MONTHLY_CREDITS, "the first month's credits");
  const subscription = await done("GET", "billing/subscription");
  check(subscription.status === "active" && subscription.plan_id === "plan_studio", JSON.stringify(subscription));
  check((await ask("POST", "billing/subscribe", { plan_id: "plan_studio" })).status === 409, "a second subscription is sold");
  await control("processor/clock", { advance_months: 1 });
  await balanceBecomes(before + 2 * MONTHLY_CREDITS, "the second month's credits");
  say("a subscription on the hosted page, and the credits of two months");
}

async function slots() {
  const known = await (await fetch(`${facts.simulators_url}/control/accounts`)).json();
  const ofAlpha = known.accounts.filter((account) => account.platform === "platform_alpha");
  const mine = (state) => state.slots.find((slot) => slot.platform === "platform_alpha");
  const before = mine(await done("GET", "billing/slots"));
  const connect = ({ creator_id, platform, auth }) => ask("POST", "connect/import", { creator_id, platform, auth });
  for (const account of ofAlpha.slice(1, before.limit)) {
    const { status, body } = await connect(account);
    check(status < 300, `connecting ${account.creator_id} responds ${status}: ${JSON.stringify(body)}`);
  }
  const last = ofAlpha[before.limit];
  check(last, `there are only ${ofAlpha.length} accounts for a limit of ${before.limit}`);
  const over = await connect(last);
  const preview = await done("GET", "billing/slots/preview?platform=platform_alpha&count=1");
  check(preview.charged_now_cents > 0 && preview.charged_now_cents <= 1500, JSON.stringify(preview));
  const bought = mine(await done("POST", "billing/slots", { platform: "platform_alpha", count: 1, creator_id: last.creator_id }));
  check(bought.count === 1 && bought.limit === before.limit + 1, JSON.stringify(bought));
  if (over.status >= 400) {
    const { status, body } = await connect(last);
    check(status < 300, `the slot does not let ${last.creator_id} in: ${status} ${JSON.stringify(body)}`);
  }
  await done("GET", `${last.creator_id}/native/users/me`);
  const lower = await ask("POST", "billing/slots", { platform: "platform_alpha", count: 0 });
  check(lower.status === 409 && lower.body.code === "slots_in_use", JSON.stringify(lower));
  check(JSON.stringify(lower.body).includes(last.creator_id), "it does not say which accounts use the slots");
  await control("processor/declines", { codes: ["generic_decline"] });
  const declined = await ask("POST", "billing/slots", { platform: "platform_alpha", count: 3 });
  check(declined.status === 402, JSON.stringify(declined));
  check(mine(await done("GET", "billing/slots")).count === 1, "a change whose payment failed applies");
  say("a slot for one more creator, a refused decrease, and a declined increase");
  await done("DELETE", `accounts/${last.creator_id}`);
  const moved = await done("POST", "billing/slots/switch", { from: "platform_alpha", to: "platform_beta" });
  const count = (platform) => moved.slots.find((slot) => slot.platform === platform).count;
  check(count("platform_alpha") === 0 && count("platform_beta") === 1, JSON.stringify(moved));
  say("a slot switched between platforms");
}

async function portal(page) {
  const { url } = await done("POST", "billing/portal");
  await page.goto(url);
  await shoot(page, "6-portal");
  check((await page.locator("input[name=quantity]").count()) === 0, "the portal changes quantities");
  await payWith(page, "5555555555554444");
  await page.getByText("mastercard").waitFor();
  await until("the new card", async () => {
    const { card } = await done("GET", "billing/card");
    return { ok: card?.last4 === "4444", value: card };
  });
  await page.locator("#cancel").click();
  await page.locator("#resume").waitFor();
  await shoot(page, "7-portal-cancelled");
  await until("the end of the subscription", async () => {
    const value = await done("GET", "billing/subscription");
    return { ok: value.cancel_at_period_end === true, value };
  });
  await page.locator("#return").click();
  await comesBack(page);
  await isTold(page, "takes effect in a moment", "7-back-from-portal");
  await control("processor/clock", { advance_months: 1 });
  await until("the last day of the subscription", async () => {
    const value = await done("GET", "billing/subscription");
    return { ok: ["canceled", "none"].includes(value.status), value };
  });
  const left = await done("GET", "billing/slots");
  const alpha = left.slots.find((slot) => slot.platform === "platform_alpha");
  check(alpha.limit === 1 && alpha.active <= 1, JSON.stringify(alpha));
  await page.goto(`${facts.processor_url}/processor`);
  await shoot(page, "8-payments");
  say("the portal: another card, the end of the subscription, and the limits after it");
}

// A browser whose pages wait patiently.
function patient(browser) {
  const waiting = (made) => {
    made.setDefaultTimeout(PATIENCE_MS);
    return made;
  };
  return {
    newContext: async (options) => waiting(await browser.newContext(options)),
    newPage: async (options) => waiting(await browser.newPage(options)),
  };
}

(async () => {
  const launched = await chromium.launch({ executablePath: facts.chromium, args: ["--no-sandbox"], timeout: PATIENCE_MS });
  const browser = patient(launched);
  // Failures of the pages' scripts, and all their messages.
  const problems = [];
  const said = [];
  try {
    const page = await browser.newPage({ viewport: { width: 1200, height: 800 }, colorScheme: "light" });
    page.on("pageerror", (error) => problems.push(String(error)));
    page.on("requestfailed", (request) => said.push(`${request.url()}: ${request.failure()?.errorText}`));
    page.on("console", (line) => line.type() === "error" && said.push(line.text()));
    await leaves(page);
    await packOnThePage(page);
    await oneClick();
    await authentication(page);
    await consoleCharges(browser);
    await topUp(page);
    await confirmTopUp(page, browser);
    await subscribe(browser);
    await slots();
    await portal(page);
    check(problems.length === 0, `the pages' scripts failed: ${problems}`);
  } catch (error) {
    throw new Error(`${error.message}; the pages said ${JSON.stringify([...problems, ...said])}`, { cause: error });
  } finally {
    await launched.close();
  }
  fs.writeFileSync(facts.told, JSON.stringify(counts));
})().catch((error) => {
  process.stderr.write(`browser-test: ${error.stack}\n`);
  process.exitCode = 1;
});
