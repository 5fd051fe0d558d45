// A customer's first hour in a real browser, and a look at every page. Standard input contains the
// addresses; screenshots go to the folder that it names, if it names one.
"use strict";
const fs = require("node:fs");
const { chromium } = require("playwright-core");
const { walkBrand } = require("./brand.cjs");
const { Guard } = require("./guard.cjs");
const hour = require("./hour.cjs");
const { lookAt } = require("./looks.cjs");
const { walkWithoutScripts } = require("./plain.cjs");
const { PATIENCE_MS, check, say, tell } = require("./support.cjs");

const facts = JSON.parse(fs.readFileSync(0, "utf8"));

// Pages that anybody can see, and those of a customer; the documents may be long.
const OPEN_PAGES = ["/console/login", "/console/register", "/console/reset", "/console/billing/return"];
const DOCUMENTS = ["/docs", "/docs/api", "/docs/errors", "/docs/platforms"];
const CUSTOMER_PAGES = [
  "/console",
  "/console/calls",
  "/console/explorer",
  "/console/accounts",
  "/console/exports",
  "/console/keys",
  "/console/billing",
  "/console/billing/plans",
  "/console/billing/topup",
  "/console/billing/orders",
  "/console/billing/invoices",
  "/console/billing/ledger",
  "/console/billing/usage",
  "/console/billing/card/remove",
  "/console/settings",
  "/console/audit",
];

// Addresses of single things, taken from the lists that link to them.
async function singlePages(page) {
  const found = [];
  for (const [list, link] of [
    ["/console/calls", 'main a[href^="/console/calls/"]'],
    ["/console/exports", 'main a[href^="/console/exports/"]:not([href*="download"])'],
    ["/console/accounts", 'main a[href$="/disconnect"]'],
    ["/console/keys", 'main a[href$="/edit"]'],
    ["/console/keys", 'main a[href$="/rotate"]'],
    ["/console/billing/invoices", 'main a[href^="/console/billing/invoices/"]'],
    ["/console/billing/plans", 'main a[href*="/console/billing/plan"]:has-text("Preview")'],
  ]) {
    await page.goto(`${facts.base_url}${list}`);
    const href = await page.locator(link).first().getAttribute("href", { timeout: PATIENCE_MS });
    found.push(href);
  }
  return found;
}

async function lookAtAll(browser, guard, session) {
  const context = await browser.newContext({ bypassCSP: true, storageState: session });
  const strangers = await browser.newContext({ bypassCSP: true });
  const finder = guard.watch(await context.newPage());
  const pages = [...CUSTOMER_PAGES, ...(await singlePages(finder))];
  await finder.close();
  const wrong = [];
  const look = async (from, path, isLarge) => {
    const name = path.replaceAll(/[^a-z0-9]+/gi, "-").slice(1, 60);
    wrong.push(...(await lookAt(from, `${facts.base_url}${path}`, { guard, screenshots: facts.screenshots, name, isLarge })));
  };
  for (const path of pages) await look(context, path, false);
  for (const path of OPEN_PAGES) await look(strangers, path, false);
  for (const path of DOCUMENTS) await look(strangers, path, true);
  await context.close();
  await strangers.close();
  check(wrong.length === 0, `pages are not as they must be:\n  ${wrong.join("\n  ")}`);
  say(`${pages.length + OPEN_PAGES.length + DOCUMENTS.length} pages in two themes and three widths, with axe`);
}

async function walk(browser, guard) {
  const context = await browser.newContext({ acceptDownloads: true });
  const page = guard.watch(await context.newPage());
  await hour.register(page, facts);
  const alpha = await hour.connect(page, facts, "platform_alpha", 0);
  await hour.call(page, facts, alpha);
  await hour.buy(page, facts);
  await hour.topUp(page, facts);
  await hour.subscribe(page, facts);
  const gamma = await hour.connect(page, facts, "platform_gamma", 0);
  await hour.exportList(page, facts, gamma);
  await hour.readChart(page, facts);
  await hour.leaveOpen(context, guard, facts);
  await lookAtAll(browser, guard, await context.storageState());
  await context.close();
  await walkWithoutScripts(browser, guard, facts, gamma);
}

(async () => {
  const browser = await chromium.launch({ executablePath: facts.chromium, args: ["--no-sandbox", "--disable-gpu"], timeout: PATIENCE_MS });
  // The processor's page, and its script on the page where a bank asks.
  const guard = new Guard([facts.base_url, new URL(facts.processor_url).origin]);
  try {
    await walk(browser, guard);
    guard.check();
    const ofBrand = new Guard([facts.branded.base_url]);
    await walkBrand(browser, ofBrand, { ...facts.branded, screenshots: facts.screenshots });
    ofBrand.check();
  } catch (error) {
    const said = guard.problems.length ? `; the pages did what they must not: ${guard.problems.join("; ")}` : "";
    throw new Error(`${error.message}${said}`, { cause: error });
  } finally {
    await browser.close();
  }
  tell(facts);
})().catch((error) => {
  process.stderr.write(`console-test: ${error.stack}\n`);
  process.exitCode = 1;
});
