//! Native calls: their cost, what platforms see of them, and what must never happen.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::large_futures,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

mod accounts;
mod believable_faults;
mod callers;
mod configured;
mod cookies;
mod database;
mod declared_platforms;
mod encoded_paths;
mod faults;
mod headers;
mod http2;
mod idempotency;
mod metering;
mod obedient_loops;
mod overload;
mod paths;
mod quirks;
mod recovery;
mod refreshes;
mod renamed_platforms;
mod routes;
mod shares;
mod streams;
mod upload;
mod wire;
mod writes;
