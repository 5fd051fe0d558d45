//! What all simulators build on: their ports, faults on demand, the control interface, a clock that
//! can be moved, and a mail server. It knows no platform and no payment processor; each of them is
//! a [`Simulator`] that a [`SimulatorService`] serves.

pub mod calendar;
pub mod clock;
pub mod control;
pub mod environment;
pub mod faults;
pub mod json_lines;
mod listener;
pub mod mail;
pub mod pairs;
mod port_set;
pub mod running;
pub mod script;
pub mod seeded_random;
pub mod service;
pub mod simulator;

pub use clock::SimulatorClock;
pub use environment::SimulatorEnvironment;
pub use running::RunningService;
pub use service::SimulatorService;
pub use simulator::Simulator;
