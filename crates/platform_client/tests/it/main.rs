//! Calls over real sockets: what leaves, what comes back, and what becomes of every fault between.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets what it does not expect must fail"
)]

mod additions;
mod answers;
mod faults;
mod http2;
mod oauth;
mod pools;
mod proxies;
mod requests;
mod signing;
mod support;
mod tls;
mod verify;
