//! What tests of outbound calls rely on: a peer does what its script says, and no more.

#[cfg(test)]
mod authority;
#[cfg(test)]
mod peer;
