// Lets the customer confirm the payment with the processor's script, then asks our server for the result.
"use strict";
const form = document.getElementById("confirm");
const button = document.getElementById("start");
const problem = document.getElementById("problem");

function tell(text) {
  problem.textContent = text;
  problem.hidden = false;
  button.disabled = false;
}

async function confirm() {
  button.disabled = true;
  problem.hidden = true;
  const { key, secret, method } = form.dataset;
  const result = await window.Stripe(key).confirmCardPayment(secret, { payment_method: method });
  if (result.error && result.error.type === "api_connection_error") {
    tell("The payment processor cannot be reached. Check your connection and try again.");
    return;
  }
  // Paid or declined: the server reads the result from the processor and shows it.
  HTMLFormElement.prototype.submit.call(form);
}

if (typeof window.Stripe === "function") {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    confirm().catch((error) => tell(`The payment could not be confirmed: ${error.message}`));
  });
  button.disabled = false;
} else {
  tell("The payment processor's script could not be loaded. Allow it in this browser, or open the link in another one.");
  button.disabled = true;
}
