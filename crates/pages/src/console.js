// Progressive enhancement for the console. Every page works without this file; it adds copying, live progress,
// guards against double submits, the filter shortcut, local times and the card's authentication step.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const live = document.querySelector("[data-live]");
  const say = (text) => { if (live) { live.textContent = ""; setTimeout(() => { live.textContent = text; }, 50); } };

  // Copy buttons are in the page but hidden, since without a script they would do nothing.
  function enhance(root) {
    for (const button of all("[data-copy]", root)) button.hidden = false;
    for (const time of all("time[datetime]", root)) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.valueOf())) time.title = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
    }
  }

  // A closed announcement stays closed for the session, until its text changes.
  for (const line of all("[data-announcement]")) {
    try { if (sessionStorage.getItem("announcement") === line.textContent) line.hidden = true; } catch { /* not kept */ }
    const button = line.querySelector("[data-dismiss]");
    button.hidden = false;
    button.addEventListener("click", () => {
      line.hidden = true;
      try { sessionStorage.setItem("announcement", line.textContent); } catch { /* not kept */ }
    });
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const candidates = all(button.dataset.copy);
    const source = candidates.find((element) => element.offsetParent !== null) || candidates[0];
    if (!source) return;
    const label = button.querySelector("span") || button;
    const before = label.textContent;
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
      label.textContent = "Copied";
      say("Copied to the clipboard.");
    } catch {
      getSelection().selectAllChildren(source);
      label.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { label.textContent = before; }, 1600);
  });

  // The chosen language of examples is kept for this browser. Storage may be refused; then it is not kept.
  document.addEventListener("change", (event) => {
    if (event.target.name !== "lang") return;
    try { localStorage.setItem("lang", event.target.value); } catch { /* not kept */ }
  });
  try {
    const kept = localStorage.getItem("lang");
    for (const radio of all('input[name="lang"]')) if (radio.value === kept) radio.checked = true;
  } catch { /* not kept */ }

  // A form is sent once. A page that comes back from the browser's cache is usable again.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.sent) return event.preventDefault();
    if (form.method !== "post") {
      for (const field of all("input, select", form)) if (field.value === "") field.disabled = true;
      return;
    }
    form.dataset.sent = "1";
    const button = event.submitter || form.querySelector("button");
    if (button) { button.setAttribute("aria-busy", "true"); say("Working…"); }
  });
  addEventListener("pageshow", () => {
    for (const form of all("form")) delete form.dataset.sent;
    for (const button of all("[aria-busy]")) button.removeAttribute("aria-busy");
    for (const field of all("form[method='get'] :disabled")) field.disabled = false;
  });

  // "/" moves to the filter or search field.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const field = document.querySelector("[data-slash]");
    if (field) { event.preventDefault(); field.focus(); field.select(); }
  });

  // A region with data-poll is fetched again until the answer has no data-poll. The server sends the region alone.
  // Pauses grow from 1.5 s to 10 s, and nothing is asked while the page is hidden.
  function poll(region, pause = 1500, failures = 0) {
    setTimeout(async () => {
      if (document.hidden) return poll(region, pause, failures);
      try {
        const response = await fetch(region.dataset.poll, { headers: { Accept: "text/html" }, credentials: "same-origin", redirect: "manual" });
        if (response.status === 401 || response.type === "opaqueredirect") return signedOut();
        if (!response.ok) throw new Error(String(response.status));
        asked = Date.now();
        const next = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("[data-region]");
        if (!next) throw new Error("no region");
        const inside = region.contains(document.activeElement) && document.activeElement.id;
        region.replaceWith(next);
        enhance(next);
        if (inside) document.getElementById(inside)?.focus();
        if (next.dataset.poll) poll(next, Math.min(pause * 1.2, 10000));
        else say(next.dataset.done || "Finished.");
      } catch {
        if (failures < 5) poll(region, Math.min(pause * 2, 10000), failures + 1);
        else say("Live updates stopped. Reload the page.");
      }
    }, pause);
  }
  function signedOut() {
    const notice = document.getElementById("signed-out");
    if (notice) { notice.hidden = false; notice.querySelector("a").focus(); }
  }

  // What a person saw goes with the session. A page that nothing has asked for since longer than sessions last unused is
  // emptied, whatever the network does; one that the browser kept behind "back" is asked for again.
  const idle = Number(document.body.dataset.idleS) * 1000;
  let asked = Date.now();
  function forget() {
    if (Date.now() - asked < idle) return;
    for (const part of all("header.top, aside.side, main > :not(#signed-out)")) part.remove();
    signedOut();
  }
  if (idle) {
    setInterval(forget, 30000);
    document.addEventListener("visibilitychange", forget);
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  }

  // The card's authentication step. The page holds what the processor's script needs; what is granted is decided by the
  // server alone, from the processor's own record: the form asks it for the result, paid or declined.
  async function authenticate(section, start) {
    const { jsUrl, publishableKey, clientSecret, paymentMethod } = section.dataset;
    const status = section.querySelector("[data-status]");
    start.disabled = true;
    status.textContent = "Opening your bank’s window…";
    try {
      if (typeof window.Stripe !== "function") {
        await new Promise((resolve, reject) => {
          const script = document.createElement("script");
          Object.assign(script, { src: jsUrl, onload: resolve, onerror: reject });
          document.head.append(script);
        });
      }
      const withCard = paymentMethod ? { payment_method: paymentMethod } : undefined;
      const result = await window.Stripe(publishableKey).confirmCardPayment(clientSecret, withCard);
      if (result.error?.type === "api_connection_error") throw new Error(result.error.message);
      status.textContent = "Asking for the result…";
      section.querySelector("form[data-confirm]").requestSubmit();
    } catch {
      status.textContent = "Your bank’s window could not be opened. Check your connection and try again, or pay on the payment page.";
    }
    start.disabled = false;
  }

  enhance(document);
  for (const region of all("[data-poll]")) poll(region);
  for (const section of all("[data-client-secret]")) {
    const start = section.querySelector("[data-start]");
    start.hidden = false;
    start.addEventListener("click", () => authenticate(section, start));
  }
})();
