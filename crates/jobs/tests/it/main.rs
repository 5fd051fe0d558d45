//! Jobs on both databases: run once they are due, and never lost.

#[cfg(test)]
mod queue;
#[cfg(test)]
mod runner;
