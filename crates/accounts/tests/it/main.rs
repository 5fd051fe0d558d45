//! Connected accounts: how they are connected, switched and paced, and what refusals of their
//! platform mean for them.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

mod account_switch;
mod connecting;
mod drift;
mod pacing;
mod platform_refusals;
mod refusals;
