// Looks at one page in both themes and at the widths of a desk, a phone and a small phone: nothing
// is wider than the window, the HTML is small, and axe finds nothing.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { counts } = require("./support.cjs");

const AXE = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
// The limits of a page: bytes of its HTML, elements, and requests for it and its parts.
const HTML_BYTES_MAX = 60 * 1024;
const ELEMENTS_MAX = 1_500;
const REQUESTS_MAX = 3;
const WIDTHS = [
  { name: "desk", width: 1280, height: 900 },
  { name: "phone", width: 390, height: 844 },
  { name: "small", width: 320, height: 640 },
];
const THEMES = ["light", "dark"];

async function violations(page) {
  // The context of these pages ignores their policy, which allows no script but ours.
  return page.evaluate(async (source) => {
    if (!window.axe) (0, eval)(source);
    const found = await window.axe.run(document, { resultTypes: ["violations"] });
    return found.violations.map((one) => `${one.impact} ${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(", ")}`);
  }, AXE);
}

// What is wrong with the size of a page.
async function excess(page, response, requests) {
  const wrong = [];
  const html = await response.text();
  const elements = await page.locator("*").count();
  if (html.length > HTML_BYTES_MAX) wrong.push(`${html.length} bytes of HTML`);
  if (elements > ELEMENTS_MAX) wrong.push(`${elements} elements`);
  if (requests > REQUESTS_MAX) wrong.push(`${requests} requests`);
  return wrong;
}

// What is wrong with the page at this address. `isLarge`: whether it may be as large as it needs.
async function lookAt(context, address, { guard, screenshots, name, isLarge }) {
  const page = guard.watch(await context.newPage());
  let requests = 0;
  page.on("request", () => { requests += 1; });
  const response = await page.goto(address, { waitUntil: "load" });
  const wrong = isLarge ? [] : await excess(page, response, requests);
  if (!response.ok()) wrong.push(`status ${response.status()}`);
  if ((await page.locator("h1").count()) !== 1) wrong.push("not exactly one h1");
  for (const theme of THEMES) {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    for (const { name: width, ...size } of WIDTHS) {
      await page.setViewportSize(size);
      const isWide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
      counts.looks += 1;
      if (isWide) wrong.push(`wider than the window (${width}, ${theme})`);
      if (width === "small") continue;
      wrong.push(...(await violations(page)).map((what) => `${what} (${width}, ${theme})`));
      if (screenshots) await page.screenshot({ path: path.join(screenshots, `${name}-${theme}-${width}.png`), fullPage: true });
    }
  }
  await page.close();
  return wrong.map((what) => `${address}: ${what}`);
}

module.exports = { lookAt };
