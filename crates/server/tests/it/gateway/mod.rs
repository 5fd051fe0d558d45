//! Native calls: what they cost, what platforms see of them, and what must never happen.

mod callers;
mod faults;
mod framing;
mod headers;
mod idempotency;
mod metering;
mod paths;
mod routes;
mod wire;
