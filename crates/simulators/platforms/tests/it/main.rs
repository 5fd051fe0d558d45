//! The simulated platforms, called over HTTP as a gateway calls them.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test should stop at the unexpected"
)]

mod alpha;
mod alpha_refusals;
mod alpha_writes;
mod beta;
mod beta_refusals;
mod beta_signing;
mod beta_state;
mod beta_writes;
mod catalogue;
mod control;
mod delta;
mod delta_oauth;
mod delta_refusals;
mod delta_state;
mod delta_writes;
mod fault_scripts;
mod faults;
mod gamma;
mod gamma_refusals;
mod gamma_state;
mod gamma_writes;
mod kit;
mod money;
mod pages;
mod present;
mod refusals;
mod socket;
mod writes;
