//! What happens to every request before it is routed and to every answer before it leaves.
//!
//! Plain functions and small types, put in order by the router. They know HTTP and limits; they know
//! nothing of customers, credits or platforms.

pub mod body;
pub mod budget;
pub mod framing;
pub mod network_limit;
pub mod rate_limit;
pub mod real_ip;
pub mod request_id;
pub mod security_headers;
pub mod texts;
