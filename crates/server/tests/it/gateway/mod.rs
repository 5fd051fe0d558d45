//! Native calls: what they cost, what platforms see of them, and what must never happen.

mod faults;
mod framing;
mod headers;
mod metering;
mod paths;
mod wire;
