// A browser whose pages may do nothing that our pages must not do: fail, say errors, or ask
// another host.
"use strict";
const { PATIENCE_MS } = require("./support.cjs");

// A message that browsers write for every response of 400 and more; the test looks at those itself.
const BY_STATUS = /^Failed to load resource: the server responded with a status of 4\d\d/;

class Guard {
  // `origins`: the addresses that pages may load from.
  constructor(origins) {
    this.origins = origins;
    this.problems = [];
  }

  watch(page) {
    page.setDefaultTimeout(PATIENCE_MS);
    page.on("pageerror", (error) => this.problems.push(`${page.url()}: ${error}`));
    page.on("console", (line) => {
      if (line.type() === "error" && !BY_STATUS.test(line.text())) this.problems.push(`${page.url()}: ${line.text()}`);
    });
    page.on("requestfailed", (request) => {
      // A download and a page that is left end their requests early.
      const reason = request.failure()?.errorText;
      if (reason !== "net::ERR_ABORTED") this.problems.push(`${request.url()}: ${reason}`);
    });
    page.on("request", (request) => {
      const { origin, protocol } = new URL(request.url());
      if (protocol.startsWith("http") && !this.origins.includes(origin)) this.problems.push(`${page.url()} asks ${request.url()}`);
    });
    return page;
  }

  check() {
    if (this.problems.length > 0) throw new Error(`the pages did what they must not:\n  ${this.problems.join("\n  ")}`);
  }
}

module.exports = { Guard };
