//! The simulated platforms, asked over HTTP the way a gateway asks them.

mod alpha;
mod control;
mod kit;
