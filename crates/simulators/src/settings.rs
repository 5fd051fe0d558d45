//! The settings of the simulators.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use simulator_kit::{SimulatorClock, SimulatorEnvironment};
use simulator_platforms::PlatformSettings;
use simulator_processor::ProcessorSettings;

/// All settings of the simulators.
#[derive(Clone, Debug)]
pub struct SimulatorSettings {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The address on which the mail server listens for SMTP; port 0 takes a free one.
    pub mail_listen: SocketAddr,
    /// The folder of the request logs and journals, created if missing. `None` keeps both in
    /// memory, and everything written is gone when the process ends.
    pub data: Option<PathBuf>,
    /// The seed of the generated world: the same seed generates the same world.
    pub seed: u64,
    /// The source of the time.
    pub clock: SimulatorClock,
    /// The settings of the platforms.
    pub platforms: PlatformSettings,
    /// The settings of the payment processor.
    pub processor: ProcessorSettings,
}

impl SimulatorSettings {
    pub(crate) fn environment(&self) -> SimulatorEnvironment {
        SimulatorEnvironment { data: self.data.clone(), seed: self.seed, clock: self.clock.clone() }
    }
}

impl Default for SimulatorSettings {
    fn default() -> Self {
        let SimulatorEnvironment { data, seed, clock } = SimulatorEnvironment::default();
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
