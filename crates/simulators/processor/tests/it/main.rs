//! The payment processor, called over a socket as a server calls it.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test should stop at the unexpected"
)]

mod balance;
mod checkout;
mod companies;
mod discounts;
mod events;
mod intents;
mod kit;
mod money_back;
mod portal;
mod sequences;
mod subscriptions;
mod time;
mod unpaid;
mod vectors;
mod wire;
