//! What all services build on, as they use it.

#[cfg(test)]
mod audit;
#[cfg(test)]
mod clocks;
#[cfg(test)]
mod counting;
#[cfg(test)]
mod sealing;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod vault;
