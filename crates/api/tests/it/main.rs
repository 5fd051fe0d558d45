//! The service's own routes, resource by resource, and who may call them.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

mod access;
mod audit;
mod billing_repeats;
mod billing_responses;
mod breakdowns;
mod estimates;
mod key_limits;
mod keys;
mod ledger;
mod me;
mod notices;
mod one_call;
mod platforms;
mod register;
mod signup;
mod spending;
mod usage;
