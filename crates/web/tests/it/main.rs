//! What all routes of the service have in common: bodies, fields, limits, repeated requests, names.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

mod bodies;
mod consistency;
mod fields;
mod framing;
mod limits;
mod repeats;
mod shape;
