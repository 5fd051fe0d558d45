//! Requests to the payment processor over real sockets, and its objects as it writes them.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets what it does not expect must fail"
)]

mod answers;
mod billing;
mod checkout;
mod client;
mod endpoints;
mod events;
mod invoices;
mod objects;
mod requests;
mod support;
