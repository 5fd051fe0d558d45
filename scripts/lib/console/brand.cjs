// An operator's brand: a long name beside a long balance on a phone, and an announcement that is
// closed for the session.
"use strict";
const path = require("node:path");
const { check, open, say } = require("./support.cjs");

const PHONES = [{ width: 390, height: 844 }, { width: 320, height: 640 }];

async function signIn(page, facts) {
  await open(page, facts, "/console");
  await page.getByLabel("Email").fill(facts.customer.email);
  await page.getByLabel("Password", { exact: true }).fill(facts.customer.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL((url) => url.pathname === "/console");
}

// `facts.brand` has the name and the announcement that the sandbox was started with.
async function walkBrand(browser, guard, facts) {
  const context = await browser.newContext();
  const page = guard.watch(await context.newPage());
  await signIn(page, facts);
  check((await page.title()).endsWith(facts.brand.name), `the title is ${await page.title()}`);
  const line = page.locator("[data-announcement]");
  check((await line.innerText()).includes(facts.brand.announcement), "the announcement is not shown");
  for (const size of PHONES) await fitsAPhone(page, facts, size);
  await page.setViewportSize({ width: 1280, height: 900 });
  await line.getByRole("button", { name: "Close this announcement" }).click();
  check(await line.isHidden(), "the announcement stays open");
  await open(page, facts, "/console/keys");
  check(await line.isHidden(), "a closed announcement opens again on the next page");
  const other = guard.watch(await (await browser.newContext()).newPage());
  await open(other, facts, "/console/login");
  check(await other.locator("[data-announcement]").isVisible(), "another session does not see the announcement");
  await other.context().close();
  await context.close();
  say("an operator's name, and an announcement that can be closed");
}

async function fitsAPhone(page, facts, size) {
  await page.setViewportSize(size);
  const name = page.locator(".top .brand .name");
  const isCut = await name.evaluate((element) => element.scrollWidth > element.clientWidth);
  check(!isCut, `the name is cut off at ${size.width} px`);
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  check(!isWide, `the page is wider than ${size.width} px`);
  if (facts.screenshots) await page.screenshot({ path: path.join(facts.screenshots, `brand-${size.width}.png`) });
}

module.exports = { walkBrand };
