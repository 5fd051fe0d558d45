//! Connections to the outside, as those who call through them see them: over real sockets.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod secured;
#[cfg(test)]
mod signer;
#[cfg(test)]
mod support;
