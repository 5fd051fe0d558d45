// Fills a test card into the form next to its button.
"use strict";
for (const button of document.querySelectorAll("button.fill")) {
  button.addEventListener("click", () => {
    const form = button.closest("form");
    form.elements.number.value = button.dataset.number;
    form.elements.expires.value = "12 / 34";
    form.elements.cvc.value = "123";
    form.querySelector("button.main").focus();
  });
}
// A payment is sent once, however often the button is pressed.
for (const form of document.querySelectorAll("form.once")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
}
// The bank's page inside another page reports its result to that page.
const done = document.querySelector("[data-done]");
if (done && window.parent !== window) {
  window.parent.postMessage({ processor: "authenticated", intent: done.dataset.done }, "*");
}
