//! Requests to the payment processor over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that meets what it does not expect must fail")]

mod billing;
mod requests;
