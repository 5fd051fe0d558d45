// The same console without scripts: each form is an ordinary form, each page a whole page.
"use strict";
const fs = require("node:fs");
const { PERSON, signIn } = require("./hour.cjs");
const { PATIENCE_MS, check, open, say, until } = require("./support.cjs");

async function walkWithoutScripts(browser, guard, facts, account) {
  const context = await browser.newContext({ javaScriptEnabled: false, acceptDownloads: true });
  const page = guard.watch(await context.newPage());
  await open(page, facts, "/console");
  await signIn(page);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await callAgain(page, facts, account);
  await makeKey(page, facts);
  await exportAgain(page, facts, account);
  await buy(page, facts);
  await stopTopUp(page, facts);
  await addSlot(page, facts);
  await rename(page, facts);
  await leave(page, facts);
  await context.close();
  say("calls, keys, exports, purchases and settings without scripts");
}

async function callAgain(page, facts, account) {
  await open(page, facts, `/console/explorer?account=${account}`);
  await page.locator("a.rl").first().click();
  await page.getByRole("button", { name: /^Send for/ }).click();
  await page.locator("#h-res .badge").waitFor();
}

async function makeKey(page, facts) {
  await open(page, facts, "/console/keys");
  await page.locator('#new input[name="name"]').fill("no scripts");
  await page.locator('#new input[name="current_password"]').fill(PERSON.password);
  await page.locator("#new button.primary").click();
  const text = await page.locator("main").innerText();
  check(/cgw_live_\w+/.test(text), "the new key is not shown");
}

async function exportAgain(page, facts, account) {
  await open(page, facts, `/console/exports?new_account=${account}#new`);
  await page.getByRole("button", { name: /^Start export/ }).click();
  // A page without scripts is loaded again by itself; here it is read again sooner.
  const download = await until("the export", async () => {
    await open(page, facts, "/console/exports");
    const first = page.locator("table tbody tr").first();
    if (!(await page.locator('[data-poll]').count()) && (await first.count())) return first.getByRole("link", { name: /^Download/ });
    return null;
  });
  const [file] = await Promise.all([page.waitForEvent("download", { timeout: PATIENCE_MS }), download.click()]);
  check(fs.statSync(await file.path()).size > 0, "the file is empty");
}

// A pack on the payment page, where the test card is typed, and one with the saved card.
async function buy(page, facts) {
  await open(page, facts, "/console/billing");
  await page.locator('input[name="pack_id"]').first().check();
  await page.locator('button[name="pay"][value="page"]').click();
  await page.waitForURL((url) => url.href.startsWith(facts.processor_url), { timeout: PATIENCE_MS });
  await page.locator('input[name="number"]').fill("4242424242424242");
  await page.locator('input[name="expires"]').fill("12 / 44");
  await page.locator('input[name="cvc"]').fill("123");
  await page.locator("#pay").click();
  await page.waitForURL((url) => url.href.startsWith(facts.base_url), { timeout: PATIENCE_MS });
  await page.getByText("As soon as the payment processor confirms your payment").waitFor();
  // The card that the plan was paid with pays another one with one click.
  await open(page, facts, "/console/billing");
  await page.locator('input[name="pack_id"]').first().check();
  await page.getByRole("button", { name: /^Pay now with/ }).click();
  await page.getByText("Payment received").first().waitFor();
}

async function stopTopUp(page, facts) {
  await open(page, facts, "/console/billing/topup");
  await page.getByRole("button", { name: "Turn off" }).click();
  await page.getByText("Automatic top-up is off.").waitFor();
}

// Looks at what a slot costs, and pays for it with the plan's card.
async function addSlot(page, facts) {
  await open(page, facts, "/console/billing/plans");
  const form = page.locator('form[action="/console/billing/slots/change"]').first();
  await form.locator('input[name="count"]').fill("1");
  await form.locator("button").click();
  await page.getByRole("button", { name: /^Add for \$/ }).click();
  await page.getByText("has 1 extra slot").waitFor();
}

async function rename(page, facts) {
  await open(page, facts, "/console/settings");
  const form = page.locator('form[action="/console/settings/name"]');
  await form.locator('input[name="name"]').fill("Second Hour");
  await form.locator("button").click();
  check((await page.locator("main").innerText()).includes("saved") || (await form.locator('input[name="name"]').inputValue()) === "Second Hour", "the name is not changed");
}

async function leave(page, facts) {
  await page.locator('form[action="/console/logout"] button').first().click();
  check(new URL(page.url()).pathname === "/console/login", `signing out leads to ${page.url()}`);
  await page.goto(`${facts.base_url}/console/keys`);
  check(new URL(page.url()).pathname === "/console/login", `a page without a session is at ${page.url()}`);
}

module.exports = { PERSON, walkWithoutScripts };
