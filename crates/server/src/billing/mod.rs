//! Payments: what joins the books to the payment processor.
//!
//! Credits are granted for a payment in one place only, however the payment became known; everything here that
//! learns of one ends there. What the processor says is read from the processor, never believed from a browser.
pub(crate) mod plans;
