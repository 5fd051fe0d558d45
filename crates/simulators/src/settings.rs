//! What the simulators are started with.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use simulator_kit::{Environment, SimulatorClock};
use simulator_platforms::PlatformSettings;
use simulator_processor::ProcessorSettings;

/// Everything that can be chosen about the simulators.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where the mail sink listens for SMTP; port 0 takes a free one.
    pub mail_listen: SocketAddr,
    /// The folder of the request logs and journals; it is made if it is missing. `None` keeps
    /// both in memory, and all that was written is gone when the process ends.
    pub data: Option<PathBuf>,
    /// What the world is generated from: the same seed gives the same world.
    pub seed: u64,
    /// Where the time comes from.
    pub clock: SimulatorClock,
    /// What is about the platforms alone.
    pub platforms: PlatformSettings,
    /// What is about the payment processor alone.
    pub processor: ProcessorSettings,
}

impl Settings {
    pub(crate) fn environment(&self) -> Environment {
        Environment { data: self.data.clone(), seed: self.seed, clock: self.clock.clone() }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let Environment { data, seed, clock } = Environment::default();
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            mail_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            data,
            seed,
            clock,
            platforms: PlatformSettings::default(),
            processor: ProcessorSettings::default(),
        }
    }
}
