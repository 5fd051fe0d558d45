//! Steps that every request passes before routing, and every response before it is sent.
//!
//! Plain functions and small types, which the router puts in order. They know HTTP and limits, but
//! nothing about customers, credits or platforms.

pub mod body;
pub mod budget;
pub mod framing;
pub mod network_limit;
pub mod rate_limit;
pub mod real_ip;
pub mod request_id;
pub mod security_headers;
pub mod texts;
