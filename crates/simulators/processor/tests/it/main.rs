//! The payment processor, called over a socket as a server calls it.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test should stop at the unexpected"
)]

mod balance;
mod catalogue;
mod checkout;
mod checks;
mod companies;
mod coupons;
mod credit_notes;
mod customers;
mod discounts;
mod endpoints;
mod events;
mod intents;
mod invoices;
mod kit;
mod money_back;
mod payment_methods;
mod payment_states;
mod portal;
mod protocol;
mod reversals;
mod sequences;
mod sessions;
mod setup_intents;
mod subscription_states;
mod subscriptions;
mod time;
mod unpaid;
mod vectors;
mod wire;
