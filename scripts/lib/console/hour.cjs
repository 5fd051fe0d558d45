// A customer's first hour: everything is done on the pages, as a person does it.
"use strict";
const fs = require("node:fs");
const { PATIENCE_MS, check, freeAccount, linkInEmail, open, openUntil, say } = require("./support.cjs");

const PERSON = { name: "First Hour", email: "hour@example.com", password: "correct horse battery staple" };
const ASKS_BANK = "4000002760003184";
const PLAIN_CARD = "4242424242424242";

// Registers, and confirms the address by the link of the email. Returns the API key.
async function register(page, facts) {
  await open(page, facts, "/console/register");
  await page.getByLabel("Name (optional)").fill(PERSON.name);
  await page.getByLabel("Email").fill(PERSON.email);
  // A password that everybody uses is refused at its field, and everything else is kept.
  await page.getByLabel("Password").fill("password1");
  await page.getByRole("button", { name: "Create account" }).click();
  await page.locator("#e-password").waitFor();
  check((await page.getByLabel("Email").inputValue()) === PERSON.email, "a refused form loses the address");
  await page.getByLabel("Password").fill(PERSON.password);
  await page.getByRole("button", { name: "Create account" }).click();
  const key = await page.locator("#secret").innerText();
  check(key.startsWith("cgw_live_"), `the page shows the key ${key}`);
  await page.goto(await linkInEmail(facts, PERSON.email, "/console/confirm?token="));
  await page.getByRole("button", { name: "Confirm this address" }).click();
  await page.getByText("of your free trial were added").waitFor();
  await page.getByRole("link", { name: "Go to the console" }).click();
  if (new URL(page.url()).pathname === "/console/login") await signIn(page);
  await page.getByRole("heading", { name: "Welcome" }).waitFor();
  say("registered, confirmed and signed in");
  return key;
}

async function signIn(page) {
  await page.getByLabel("Email").fill(PERSON.email);
  await page.getByLabel("Password", { exact: true }).fill(PERSON.password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

// Fills in the form of an account. Returns its name.
async function connect(page, facts, platform, number) {
  const account = await freeAccount(facts, platform, number);
  await open(page, facts, `/console/accounts?platform=${platform}#connect`);
  await page.getByLabel("Account name").fill(account.creator_id);
  for (const [field, value] of Object.entries(account.auth)) {
    const input = page.locator(`[name="auth.${field}"]`);
    if (await input.count()) await input.fill(typeof value === "string" ? value : JSON.stringify(value));
  }
  await page.getByRole("button", { name: "Verify and connect" }).click();
  await page.getByRole("link", { name: account.creator_id, exact: true }).waitFor();
  say(`connected an account of ${platform}`);
  return account.creator_id;
}

// Finds a route by its search and sends a call. Reads what the receipt says.
async function call(page, facts, account) {
  await open(page, facts, "/console/explorer");
  await page.getByLabel("Account").selectOption(account);
  await page.getByLabel("Search").fill("users/me");
  await page.getByRole("button", { name: "Show routes" }).click();
  await page.locator("a.rl", { hasText: /users\/me$/ }).first().click();
  await page.getByRole("button", { name: /^Send for 1 credit/ }).click();
  await page.locator("#h-res .badge", { hasText: "200" }).waitFor();
  const receipt = await page.locator(".receipt").innerText();
  check(/Charged\s+1 credit/.test(receipt), `the receipt says ${receipt}`);
  await page.getByRole("link", { name: "Open in the call log" }).click();
  await page.getByText("users/me").first().waitFor();
  say("sent a call and opened it in the call log");
}

// On the processor's page: the number of a test card, and the button that pays.
async function payOnPage(page, facts, number) {
  await page.waitForURL((url) => url.href.startsWith(facts.processor_url), { timeout: PATIENCE_MS });
  const cards = page.locator("details.cards");
  if (!(await cards.evaluate((details) => details.open))) await cards.locator("summary").click();
  await page.locator(`button.fill[data-number="${number}"]`).click();
  await page.locator("button.main").click();
  if (number === ASKS_BANK) await page.locator("#complete").click();
  await page.waitForURL((url) => url.href.startsWith(facts.base_url), { timeout: PATIENCE_MS });
  await page.getByText("As soon as the payment processor confirms your payment").waitFor();
  await page.getByRole("link", { name: "Go to billing" }).click();
}

// Buys a pack with a card whose bank asks, then another with one click, confirmed on our page.
async function buy(page, facts) {
  await open(page, facts, "/console/billing");
  await page.locator('input[name="pack_id"]').first().check();
  await page.getByRole("button", { name: "Pay on the payment page" }).click();
  await payOnPage(page, facts, ASKS_BANK);
  await openUntil(page, facts, "/console/billing", "3184");
  say("bought a pack with a card that requires authentication");
  await page.locator('input[name="pack_id"]').first().check();
  await page.getByRole("button", { name: /^Pay now with/ }).click();
  await page.getByRole("heading", { name: "Your bank asks you to confirm this payment" }).waitFor();
  await page.locator("[data-start]:enabled").click();
  const bank = page.frameLocator('iframe[name="processor-authentication"]');
  await bank.locator("#complete").click();
  await page.getByText("Payment received").first().waitFor({ timeout: PATIENCE_MS });
  say("bought another with one click, confirmed with the bank");
}

async function topUp(page, facts) {
  await open(page, facts, "/console/billing/topup");
  await page.getByLabel("When credits fall below").fill("1000");
  await page.getByLabel("At most per day, in US dollars").fill("50");
  await page.getByRole("button", { name: "Turn on" }).click();
  await page.locator(".badge", { hasText: "On" }).waitFor();
  say("turned on automatic top-up");
}

async function subscribe(page, facts) {
  await open(page, facts, "/console/billing/plans");
  await page.getByRole("button", { name: /^Subscribe/ }).last().click();
  await payOnPage(page, facts, PLAIN_CARD);
  await openUntil(page, facts, "/console/billing", "Renews on");
  say("subscribed");
}

// Creates an export, follows it without leaving the page, and downloads it.
async function exportList(page, facts, account) {
  await open(page, facts, `/console/exports?new_account=${account}#new`);
  await page.getByRole("button", { name: /^Start export/ }).click();
  await page.locator("table th a.mono, a#download").first().waitFor({ timeout: PATIENCE_MS });
  if ((await page.locator("a#download").count()) === 0) await page.locator("table th a.mono").first().click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator("a#download").click({ timeout: PATIENCE_MS })]);
  const text = fs.readFileSync(await download.path(), "utf8");
  const rows = text.trim().split("\n").length - 1;
  const shown = (await page.locator("#h-state").locator("xpath=../..").locator("b.num").innerText()).replaceAll(",", "");
  check(String(rows) === shown, `the file has ${rows} rows, the page says ${shown}`);
  say(`exported and downloaded ${rows} rows`);
}

// The chart of the overview and its table have the call and the export.
async function readChart(page, facts) {
  await open(page, facts, "/console");
  const chart = page.locator("svg[aria-labelledby^=calls-t]");
  check((await chart.locator("rect.bar").count()) > 0, "the chart has no bar");
  await page.locator("summary", { hasText: "Show as a table" }).click();
  const today = await page.locator("details.data tbody tr").first().innerText();
  const [, calls] = today.split("\t");
  check(Number(calls) >= 1, `the table says ${today}`);
  say("read the chart");
}

// A page that stays open longer than a session lasts unused shows nothing of the customer any more.
async function leaveOpen(context, guard, facts) {
  const page = guard.watch(await context.newPage());
  await page.clock.install();
  await open(page, facts, "/console/settings");
  await page.clock.fastForward("11:59:00");
  check((await page.locator("body").innerText()).includes(PERSON.email), "the page is empty too early");
  await page.clock.fastForward("00:02:00");
  await page.getByText("You’ve been signed out.").waitFor();
  check(!(await page.locator("body").innerText()).includes(PERSON.email), "the page still shows whose it was");
  await page.close();
  say("a page that was left open forgets what it showed");
}

module.exports = { PERSON, buy, call, connect, exportList, leaveOpen, readChart, register, signIn, subscribe, topUp };
