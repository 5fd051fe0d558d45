//! Native calls: what they cost, what platforms see of them, and what must never happen.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::large_futures,
    reason = "a test that meets what it does not expect must fail, and has the stack to itself"
)]

mod accounts;
mod believable_faults;
mod callers;
mod configured;
mod database;
mod faults;
mod framing;
mod headers;
mod http2;
mod idempotency;
mod metering;
mod obedient_loops;
mod overload;
mod paths;
mod platform_refusals;
mod recovery;
mod refusals;
mod routes;
mod shares;
mod streams;
mod upload;
mod wire;
mod writes;
