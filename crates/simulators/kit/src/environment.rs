//! What all simulators are started with.

use std::path::PathBuf;

use crate::clock::SimulatorClock;

/// The folder, the seed and the clock that simulators share.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The folder of the request logs and journals; it must exist. `None` keeps both in memory,
    /// and all that was written is gone when the process ends.
    pub data: Option<PathBuf>,
    /// What is generated from: the same seed gives the same world.
    pub seed: u64,
    /// Where the time comes from.
    pub clock: SimulatorClock,
}

impl Default for Environment {
    fn default() -> Self {
        Self { data: None, seed: 1, clock: SimulatorClock::system() }
    }
}
