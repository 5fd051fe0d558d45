//! The listener as its clients see it: over real sockets, through its public functions.

#[cfg(test)]
mod ending;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tls;
