//! Simulates the four creator platforms, over one generated world. It shares no types with the
//! gateway; the wire is the contract.

#![recursion_limit = "256"]
#![expect(
    clippy::unnecessary_wraps,
    reason = "handlers that cannot fail have the same type as all others"
)]

mod alpha;
mod answer;
mod beta;
mod call;
mod control;
mod delta;
mod files;
mod folder_media;
mod gamma;
mod host;
mod journal;
mod lists;
mod multipart;
mod overlay;
mod platform;
mod present;
mod request_log;
mod routes;
mod settings;
mod simulator;
mod world;

pub use platform::DemoAccount;
pub use settings::PlatformSettings;
pub use simulator::{PlatformsSimulator, demo_accounts};
