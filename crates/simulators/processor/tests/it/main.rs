//! The payment processor, asked over a socket the way a server asks it.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets the unexpected is to stop"
)]

mod balance;
mod checkout;
mod discounts;
mod events;
mod intents;
mod kit;
mod money_back;
mod portal;
mod subscriptions;
mod time;
mod unpaid;
mod vectors;
mod wire;
