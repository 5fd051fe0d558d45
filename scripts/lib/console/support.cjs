// What every part of the walk uses: checks, waiting, the simulators' controls.
"use strict";

const fs = require("node:fs");

// Events arrive within a second; only what never happens takes so long, however slow or busy the machine is.
const PATIENCE_MS = 300_000;
// How much was done, by kind.
const counts = { steps: 0, pages: 0, looks: 0 };

function check(condition, message) {
  if (!condition) throw new Error(message);
}

function say(what) {
  counts.steps += 1;
  process.stdout.write(`console-test: ${what}: ok\n`);
}

// Writes how much was done to the file that the facts name.
function tell(facts) {
  fs.writeFileSync(facts.told, JSON.stringify(counts));
}

// Repeats a look until it returns something.
async function until(what, look) {
  const deadline = Date.now() + PATIENCE_MS;
  do {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 200));
  } while (Date.now() < deadline);
  throw new Error(`${what} did not happen`);
}

// Reads something of the simulators.
async function control(facts, route) {
  const response = await fetch(`${facts.simulators_url}/control/${route}`);
  check(response.ok, `/control/${route} responds ${response.status}`);
  return response.json();
}

// The link of an email to this address that contains a text.
async function linkInEmail(facts, to, part) {
  return until(`an email to ${to} with ${part}`, async () => {
    const { mails } = await control(facts, `mail?to=${encodeURIComponent(to)}`);
    for (const { id } of mails.reverse()) {
      const link = (await control(facts, `mail/${id}`)).links.find((one) => one.includes(part));
      if (link) return link;
    }
    return null;
  });
}

// Goes to a page of the console and checks that it is there.
async function open(page, facts, path) {
  const response = await page.goto(`${facts.base_url}${path}`);
  check(response.ok(), `${path} responds ${response.status()}`);
  counts.pages += 1;
}

// Reads a page again until it contains a text: what an event changes is there a moment later.
async function openUntil(page, facts, path, text) {
  await until(`"${text}" on ${path}`, async () => {
    await open(page, facts, path);
    return (await page.locator("main").innerText()).includes(text);
  });
}

// A creator account of the simulated platform that nobody has connected.
async function freeAccount(facts, platform, number) {
  const { accounts } = await control(facts, "accounts");
  const free = accounts.filter((one) => one.platform === platform && !Object.values(facts.accounts).includes(one.creator_id));
  check(free[number], `${platform} has no free account ${number}`);
  return free[number];
}

module.exports = { PATIENCE_MS, check, control, counts, freeAccount, linkInEmail, open, openUntil, say, tell, until };
