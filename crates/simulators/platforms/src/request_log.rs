//! The log of requests to a platform. A request is logged before it is handled, so that a check of
//! the gateway's ledger can see what really reached the platform, also after a crash.
//!
//! The newest requests are kept in memory, up to a number; all are counted, and with a data folder
//! all of them are on file. A page of older ones is read from the file, starting near its offset.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use simulator_kit::json_lines::JsonLines;

/// The file offset is remembered for the first request after each multiple of this number.
const MARK_EVERY: u64 = 1024;

/// The number of lines after the last request of a page that are searched for statuses.
const LINES_BEHIND_MAX: u64 = 100_000;

/// One request, as it arrived.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LoggedRequest {
    /// Counts up from 1 in the log of a platform, across restarts.
    pub(crate) seq: u64,
    pub(crate) at_ms: i64,
    pub(crate) method: String,
    /// Without the platform's path prefix, such as `/users/me`.
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    /// The header `x-call-id`, if it was sent.
    pub(crate) call_id: Option<String>,
    /// The creator whose credentials were sent; `None` if they were wrong.
    pub(crate) creator: Option<String>,
    /// Whether the method is not GET.
    pub(crate) write: bool,
    /// The status of the response; `None` while the request is handled, if a fault prevented a
    /// status, and permanently if the process died during the request.
    #[serde(default)]
    pub(crate) status: Option<u16>,
    /// The kind of the fault that was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<String>,
}

/// The second line of a request, written once it has been handled.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LoggedAnswer {
    #[serde(rename = "answered")]
    seq: u64,
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Answered(LoggedAnswer),
    Arrival(Box<LoggedRequest>),
}

/// Counts of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RequestCounts {
    pub(crate) count: u64,
    /// Requests other than GET.
    pub(crate) writes: u64,
}

/// The log of one platform.
#[derive(Debug)]
pub(crate) struct RequestLog(Mutex<LogState>);

#[derive(Debug)]
struct LogState {
    lines: JsonLines,
    /// The newest requests, at most `kept_max`, with consecutive numbers up to `counts.count`.
    kept: VecDeque<LoggedRequest>,
    kept_max: usize,
    counts: RequestCounts,
    marks: Vec<u64>,
}

impl RequestLog {
    /// Opens the log at this path, or in memory only; the newest `kept_max` requests are kept in
    /// memory.
    pub(crate) fn open(path: Option<&Path>, kept_max: usize) -> io::Result<Self> {
        let mut lines = JsonLines::open(path)?;
        let mut log = LogState {
            lines: JsonLines::open(None)?,
            kept: VecDeque::new(),
            kept_max: kept_max.max(1),
            counts: RequestCounts::default(),
            marks: Vec::new(),
        };
        lines.scan(0, |at, line: Line| {
            match line {
                Line::Arrival(arrival) => log.keep(at, *arrival),
                Line::Answered(answered) => log.complete(&answered),
            }
            ControlFlow::Continue(())
        })?;
        log.lines = lines;
        Ok(Self(Mutex::new(log)))
    }

    /// Logs the request under the next number, which is returned.
    pub(crate) fn arrived(&self, mut arrival: LoggedRequest) -> io::Result<u64> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = log.counts.count + 1;
        arrival.seq = seq;
        let at = log.lines.append(&arrival)?;
        log.keep(at, arrival);
        Ok(seq)
    }

    /// Logs the response to the request.
    pub(crate) fn answered(
        &self,
        seq: u64,
        status: Option<u16>,
        fault: Option<&str>,
    ) -> io::Result<()> {
        let answered = LoggedAnswer { seq, status, fault: fault.map(str::to_owned) };
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.lines.append(&answered)?;
        log.complete(&answered);
        Ok(())
    }

    /// The number of requests since the log was started or cleared.
    pub(crate) fn counts(&self) -> RequestCounts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).counts
    }

    /// The number of requests in memory with this call id.
    pub(crate) fn counts_of(&self, call_id: &str) -> RequestCounts {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let with_id = log.kept.iter().filter(|kept| kept.call_id.as_deref() == Some(call_id));
        with_id.fold(RequestCounts::default(), |sum, found| RequestCounts {
            count: sum.count + 1,
            writes: sum.writes + u64::from(found.write),
        })
    }

    /// The number of the oldest request that can still be listed.
    pub(crate) fn first_seq(&self) -> u64 {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if log.lines.are_kept() { 1 } else { log.first_kept() }
    }

    /// Up to `limit` requests with numbers above `after`, in order.
    pub(crate) fn page(&self, after: u64, limit: usize) -> io::Result<Vec<LoggedRequest>> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = log.first_kept();
        if after + 1 < first && log.lines.are_kept() {
            return log.read(after, limit);
        }
        let skip = usize::try_from((after + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        Ok(log.kept.iter().skip(skip).take(limit).cloned().collect())
    }

    /// Removes all requests and restarts counting from 1.
    pub(crate) fn clear(&self) -> io::Result<()> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.lines.clear()?;
        log.kept.clear();
        log.marks.clear();
        log.counts = RequestCounts::default();
        Ok(())
    }
}

impl LogState {
    fn keep(&mut self, at: u64, arrival: LoggedRequest) {
        if self.counts.count.is_multiple_of(MARK_EVERY) {
            self.marks.push(at);
        }
        self.counts.count += 1;
        self.counts.writes += u64::from(arrival.write);
        if self.kept.len() == self.kept_max {
            self.kept.pop_front();
        }
        self.kept.push_back(arrival);
    }

    fn complete(&mut self, answered: &LoggedAnswer) {
        let place = answered.seq.checked_sub(self.first_kept());
        let place = place.and_then(|place| usize::try_from(place).ok());
        if let Some(arrival) = place.and_then(|place| self.kept.get_mut(place)) {
            arrival.status = answered.status;
            arrival.fault.clone_from(&answered.fault);
        }
    }

    fn first_kept(&self) -> u64 {
        self.counts.count + 1 - self.kept.len() as u64
    }

    /// Reads the page from the file.
    fn read(&mut self, after: u64, limit: usize) -> io::Result<Vec<LoggedRequest>> {
        let block = usize::try_from(after / MARK_EVERY).unwrap_or(usize::MAX);
        let from = self.marks.get(block).copied().unwrap_or(0);
        let mut page: Vec<LoggedRequest> = Vec::new();
        let (mut unanswered, mut behind) = (0, 0);
        self.lines.scan(from, |_, line: Line| {
            match line {
                Line::Arrival(arrival) if arrival.seq > after && page.len() < limit => {
                    page.push(*arrival);
                    unanswered += 1;
                }
                Line::Arrival(_) => {}
                Line::Answered(LoggedAnswer { seq, status, fault }) => {
                    let at = page.binary_search_by_key(&seq, |arrival| arrival.seq);
                    if let Some(arrival) = at.ok().and_then(|at| page.get_mut(at)) {
                        arrival.status = status;
                        arrival.fault = fault;
                        unanswered -= 1;
                    }
                }
            }
            behind += u64::from(page.len() == limit);
            let whole = page.len() == limit && (unanswered == 0 || behind > LINES_BEHIND_MAX);
            if whole { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(number: u64) -> LoggedRequest {
        LoggedRequest {
            seq: 0,
            at_ms: 0,
            method: "GET".to_owned(),
            path: format!("/{number}"),
            query: None,
            call_id: Some(format!("call-{}", number % 3)),
            creator: None,
            write: number.is_multiple_of(2),
            status: None,
            fault: None,
        }
    }

    /// Requests that arrive while others are handled; one in seven never gets a response.
    fn fill(log: &RequestLog, count: u64) {
        for number in 0..count {
            let seq = log.arrived(arrival(number)).unwrap();
            if let Some(earlier) = seq.checked_sub(5).filter(|it| !it.is_multiple_of(7)) {
                log.answered(earlier, Some(200), None).unwrap();
            }
        }
    }

    fn seqs(page: &[LoggedRequest]) -> Vec<u64> {
        page.iter().map(|arrival| arrival.seq).collect()
    }

    #[test]
    fn memory_keeps_the_newest_requests_and_counts_all() {
        let log = RequestLog::open(None, 10).unwrap();
        fill(&log, 25);

        assert_eq!(log.counts(), RequestCounts { count: 25, writes: 13 });
        assert_eq!((log.first_seq(), seqs(&log.page(0, 100).unwrap())), (16, (16..=25).collect()));
        assert_eq!(seqs(&log.page(20, 2).unwrap()), [21, 22]);
        assert!(log.page(25, 5).unwrap().is_empty());
        assert_eq!(log.counts_of("call-0").count, 4);
    }

    #[test]
    fn the_file_has_requests_dropped_from_memory_with_their_statuses() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.jsonl");
        let log = RequestLog::open(Some(&path), 10).unwrap();
        fill(&log, 3_000);
        for opened in [log, RequestLog::open(Some(&path), 10).unwrap()] {
            assert_eq!((opened.first_seq(), opened.counts().count), (1, 3_000));
            for after in [0, 1, 1_022, 1_023, 1_024, 1_025, 2_700, 2_985, 2_990, 2_998] {
                let page = opened.page(after, 5).unwrap();

                assert_eq!(seqs(&page), (after + 1..=3_000).take(5).collect::<Vec<_>>());
                for found in page {
                    let answered = found.seq <= 2_995 && !found.seq.is_multiple_of(7);
                    assert_eq!(found.status, answered.then_some(200), "{}", found.seq);
                    assert_eq!(found.path, format!("/{}", found.seq - 1));
                }
            }
        }
    }
}
