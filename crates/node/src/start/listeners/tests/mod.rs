//! Tests of the listener over real sockets. Its timeouts are short here, and tests wait for events,
//! never for a time.

mod connections;
mod ending;
mod heads;
mod support;
mod tls;
