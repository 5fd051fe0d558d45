//! What stands in for those we call: the four creator platforms, over one generated world, the payment
//! processor, and a mail server. It shares no types with the gateway; the wire is the contract.

#![recursion_limit = "256"]
#![expect(clippy::similar_names, reason = "a shelf is not easily taken for self")]
#![expect(
    clippy::unnecessary_wraps,
    reason = "handlers that cannot fail have the type of all others"
)]

mod clock;
mod control;
mod faults;
mod files;
mod journal;
mod lines;
mod listener;
mod lists;
mod mail;
mod mount;
mod multipart;
mod platform;
mod present;
mod processor;
mod request_log;
mod running;
mod service;
mod settings;
mod shelf;
mod world;

pub use clock::Clock;
pub use platform::DemoAccount;
pub use running::{Running, StartError, demo_accounts, router, start};
pub use settings::Settings;
