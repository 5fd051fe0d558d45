// Replaces the processor's script on the merchant's pages: the same functions, served by the
// simulated processor.
"use strict";
(() => {
  const base = "{{base}}";

  // Returns the API's response to a browser: {object} or {error}.
  async function ask(key, method, path, fields) {
    const form = new URLSearchParams({ key, ...fields });
    const answer = await fetch(method === "GET" ? `${base}/v1/${path}?${form}` : `${base}/v1/${path}`, {
      method,
      headers: method === "GET" ? {} : { "Content-Type": "application/x-www-form-urlencoded" },
      body: method === "GET" ? undefined : form.toString(),
    });
    const read = await answer.json();
    return read.error ? { error: read.error } : { object: read };
  }

  function idOf(clientSecret) {
    const end = clientSecret.indexOf("_secret_");
    if (end < 0) throw new Error("Invalid client secret: it must look like pi_…_secret_…");
    return clientSecret.slice(0, end);
  }

  // Shows the bank's page above the merchant's until the customer has finished.
  function authenticate(intent) {
    return new Promise((resolve) => {
      const back = document.createElement("div");
      back.setAttribute("role", "dialog");
      back.setAttribute("aria-modal", "true");
      back.setAttribute("aria-label", "Card authentication");
      back.style.cssText = "position:fixed;inset:0;z-index:2147483647;background:rgba(0,0,0,.55);display:grid;place-items:center;padding:1rem";
      const frame = document.createElement("iframe");
      frame.title = "Card authentication";
      frame.name = "processor-authentication";
      frame.src = `${base}/processor/authenticate/${intent}?embedded=1`;
      frame.style.cssText = "border:0;border-radius:12px;width:min(30rem,100%);height:min(32rem,100%);background:#fff";
      back.append(frame);
      function heard(event) {
        if (event.origin !== base || event.data?.processor !== "authenticated" || event.data.intent !== intent) return;
        window.removeEventListener("message", heard);
        back.remove();
        resolve();
      }
      window.addEventListener("message", heard);
      document.body.append(back);
      frame.focus();
    });
  }

  async function finish(key, clientSecret, intent) {
    if (intent.status !== "requires_action") return { paymentIntent: intent };
    await authenticate(intent.id);
    const read = await ask(key, "GET", `payment_intents/${intent.id}`, { client_secret: clientSecret });
    if (read.error) return { error: read.error };
    if (read.object.status === "requires_payment_method") {
      return { error: { ...read.object.last_payment_error, payment_intent: read.object } };
    }
    return { paymentIntent: read.object };
  }

  function Stripe(key) {
    if (typeof key !== "string" || !key.startsWith("pk_")) {
      throw new Error("Please call Stripe() with your publishable key. It begins with pk_.");
    }
    return {
      async retrievePaymentIntent(clientSecret) {
        const read = await ask(key, "GET", `payment_intents/${idOf(clientSecret)}`, { client_secret: clientSecret });
        return read.error ? read : { paymentIntent: read.object };
      },
      async confirmCardPayment(clientSecret, data = {}) {
        const fields = { client_secret: clientSecret, use_stripe_sdk: "true" };
        if (data.payment_method !== undefined) {
          if (typeof data.payment_method !== "string") {
            throw new Error("The stand-in only takes the id of a payment method.");
          }
          fields.payment_method = data.payment_method;
        }
        const read = await ask(key, "POST", `payment_intents/${idOf(clientSecret)}/confirm`, fields);
        return read.error ? read : finish(key, clientSecret, read.object);
      },
      async handleNextAction({ clientSecret }) {
        const read = await ask(key, "GET", `payment_intents/${idOf(clientSecret)}`, { client_secret: clientSecret });
        return read.error ? read : finish(key, clientSecret, read.object);
      },
      async handleCardAction(clientSecret) {
        return this.handleNextAction({ clientSecret });
      },
      async redirectToCheckout({ sessionId }) {
        window.location.assign(`${base}/processor/checkout/${encodeURIComponent(sessionId)}`);
        return new Promise(() => {});
      },
    };
  }
  Stripe.version = "stand-in";
  window.Stripe = Stripe;
})();
