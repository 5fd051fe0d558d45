//! Where the generated worlds end. They end on the day of the first start and stay the same as long
//! as their data folder is kept: generated data never moves, and writes always come after it.
//! Without a data folder every start is a first one.

use std::io;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use simulator_kit::SimulatorEnvironment;
use simulator_kit::json_lines::JsonLines;

use crate::world::DAY_MS;

/// The one line of the file.
#[derive(Serialize, Deserialize)]
struct WorldEnd {
    /// The start of a UTC day, in milliseconds.
    ends_at_ms: i64,
}

/// The start of the UTC day of the first start, in milliseconds; stored at the first start.
pub(crate) fn of(environment: &SimulatorEnvironment) -> io::Result<i64> {
    let file = environment.data.as_ref().map(|folder| folder.join("world.jsonl"));
    let mut lines = JsonLines::open(file.as_deref())?;
    let mut known = None;
    lines.scan(0, |_, present: WorldEnd| {
        known = Some(present.ends_at_ms);
        ControlFlow::Break(())
    })?;
    if let Some(ends_at_ms) = known {
        return Ok(ends_at_ms);
    }
    let present = WorldEnd { ends_at_ms: environment.clock.now_ms().div_euclid(DAY_MS) * DAY_MS };
    lines.append(&present)?;
    Ok(present.ends_at_ms)
}
