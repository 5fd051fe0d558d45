//! The common parameters of all simulators.

use std::path::PathBuf;

use crate::clock::SimulatorClock;

/// The folder, the seed and the clock that simulators share.
#[derive(Clone, Debug)]
pub struct SimulatorEnvironment {
    /// The folder of the request logs and journals; it must exist. `None` keeps both in memory, and
    /// everything written is gone when the process ends.
    pub data: Option<PathBuf>,
    /// The seed of the generated data: the same seed generates the same world.
    pub seed: u64,
    /// The source of the time.
    pub clock: SimulatorClock,
}

impl Default for SimulatorEnvironment {
    fn default() -> Self {
        Self { data: None, seed: 1, clock: SimulatorClock::system() }
    }
}
