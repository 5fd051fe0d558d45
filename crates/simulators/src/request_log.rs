//! What a platform was asked. A request is on the log before it is handled, so that whoever checks
//! the gateway's books can see what really reached the platform, also after any crash.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::lines::Lines;

/// One request, as it was when it arrived.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Arrival {
    /// Counts up from 1 in the log of a platform, also over restarts.
    pub(crate) seq: u64,
    pub(crate) at_ms: i64,
    pub(crate) method: String,
    /// Without the prefix that the platform lives under, such as `/users/me`.
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    /// The header `x-call-id`, if it was sent.
    pub(crate) call_id: Option<String>,
    /// The creator whose credentials were sent; `None` when they were wrong.
    pub(crate) creator: Option<String>,
    /// Not GET.
    pub(crate) write: bool,
    /// The status it was answered with; `None` while it is being handled, and for ever if the
    /// process died on it.
    #[serde(default)]
    pub(crate) status: Option<u16>,
}

/// The second line of a request, written once it is handled.
#[derive(Serialize, Deserialize)]
struct Answered {
    answered: u64,
    status: u16,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Answered(Answered),
    Arrival(Box<Arrival>),
}

/// The log of one platform.
#[derive(Debug)]
pub(crate) struct RequestLog {
    lines: Lines,
    last_seq: AtomicU64,
}

impl RequestLog {
    /// Opens the log at this path, or one in memory.
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let log = Self { lines: Lines::open(path)?, last_seq: AtomicU64::new(0) };
        let last = log.read()?.iter().map(|arrival| arrival.seq).max().unwrap_or(0);
        log.last_seq.store(last, Ordering::SeqCst);
        Ok(log)
    }

    /// Writes the request down under the next number, which is returned.
    pub(crate) fn arrived(&self, mut arrival: Arrival) -> io::Result<u64> {
        let seq = self.last_seq.fetch_add(1, Ordering::SeqCst) + 1;
        arrival.seq = seq;
        self.lines.append(&arrival)?;
        Ok(seq)
    }

    /// Writes down what the request was answered with.
    pub(crate) fn answered(&self, seq: u64, status: u16) -> io::Result<()> {
        self.lines.append(&Answered { answered: seq, status })
    }

    /// All requests in the order of their numbers, with the status of those that were answered.
    pub(crate) fn read(&self) -> io::Result<Vec<Arrival>> {
        let mut arrivals: Vec<Arrival> = Vec::new();
        let mut statuses = Vec::new();
        for line in self.lines.read::<Line>()? {
            match line {
                Line::Arrival(arrival) => arrivals.push(*arrival),
                Line::Answered(answered) => statuses.push(answered),
            }
        }
        arrivals.sort_unstable_by_key(|arrival| arrival.seq);
        for Answered { answered, status } in statuses {
            let at = arrivals.binary_search_by_key(&answered, |arrival| arrival.seq);
            if let Some(arrival) = at.ok().and_then(|at| arrivals.get_mut(at)) {
                arrival.status = Some(status);
            }
        }
        Ok(arrivals)
    }

    /// Forgets all requests and counts from 1 again.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.lines.clear()?;
        self.last_seq.store(0, Ordering::SeqCst);
        Ok(())
    }
}
