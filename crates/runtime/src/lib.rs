//! What all services build on: time, randomness, tasks that shutdown waits for, and secrets at
//! rest.
//!
//! Nothing here knows HTTP or what the service does.

pub mod audit;
pub mod cached;
pub mod clock;
pub mod keyfile;
pub mod metrics;
pub mod sealing;
pub mod tasks;
pub mod vault;

pub use clock::{Clock, Random};
pub use tasks::Tasks;
pub use vault::{CurrentDataKey, SealedValue, Vault, VaultError};
