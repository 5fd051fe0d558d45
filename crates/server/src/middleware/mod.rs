//! What happens to every request before it is routed and to every answer before it leaves.
//!
//! Plain functions and small types, put in order by the router. They know HTTP and limits; they know
//! nothing of customers, credits or platforms.

pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod framing;
pub(crate) mod in_flight;
pub(crate) mod network_limit;
pub(crate) mod rate_limit;
pub(crate) mod real_ip;
pub(crate) mod request_id;
pub(crate) mod security_headers;
pub(crate) mod texts;
