//! The service's own routes, the admin listener, the configuration, and secrets at rest.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::large_futures,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

mod account_switch;
mod accounts;
mod admin;
mod audit;
mod bodies;
mod configuration;
mod consistency;
mod email;
mod fields;
mod key_limits;
mod keys;
mod ledger;
mod limits;
mod logins;
mod me;
mod password_reset;
mod platforms;
mod register;
mod repeats;
mod sealing;
mod sessions;
mod shape;
mod signup;
mod spending;
mod support;
mod usage;
