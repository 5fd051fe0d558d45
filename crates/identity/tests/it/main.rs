//! Who customers and staff are: passwords, logins, sessions, links in emails, support access.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

mod devices;
mod email;
mod hijacking;
mod logins;
mod password_reset;
mod sessions;
mod support;
