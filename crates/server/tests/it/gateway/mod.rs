//! Native calls: what they cost, what platforms see of them, and what must never happen.

mod accounts;
mod callers;
mod faults;
mod framing;
mod headers;
mod idempotency;
mod metering;
mod paths;
mod recovery;
mod routes;
mod wire;
