//! The payment processor, asked over a socket the way a server asks it.
#![expect(
    clippy::shadow_unrelated,
    reason = "the steps of one walk through the wire use the same plain names"
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
