//! Starts all simulators together: the four creator platforms, the payment processor, and a mail
//! server. They share no types with the gateway; the wire is the contract.

mod running;
mod settings;

pub use running::{RunningSimulators, StartError, demo_accounts, start};
pub use settings::SimulatorSettings;
pub use simulator_kit::SimulatorClock;
pub use simulator_platforms::{DemoAccount, PlatformSettings};
pub use simulator_processor::ProcessorSettings;
