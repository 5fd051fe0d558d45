//! The calls that this process is carrying out. A call is alive while its reservation exists,
//! whatever it waits for, and its hold is renewed until then.

use std::collections::HashMap;
use std::time::Duration;

use domain::id::CallId;
use parking_lot::Mutex;
use tokio::time::Instant;

/// In how many parts the calls are divided; each renewal takes one of them.
const PARTS: usize = 60;
/// Calls younger than this are not renewed.
const YOUNG: Duration = Duration::from_secs(30);

/// Calls, and since when they have been alive.
type Part = Mutex<HashMap<CallId, Instant>>;

/// The live calls of one runtime.
pub(crate) struct LiveCalls([Part; PARTS]);

impl Default for LiveCalls {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Part::default()))
    }
}

impl LiveCalls {
    pub(crate) fn insert(&self, call: CallId) {
        self.part(call).lock().insert(call, Instant::now());
    }

    pub(crate) fn remove(&self, call: CallId) {
        self.part(call).lock().remove(&call);
    }

    pub(crate) fn contains(&self, call: CallId) -> bool {
        self.part(call).lock().contains_key(&call)
    }

    /// The calls to be renewed at this second: each that lasts comes once a minute, and for the
    /// first time after at most 90 seconds.
    pub(crate) fn due(&self, second: u64) -> Vec<CallId> {
        let calls = self.numbered(second).lock();
        let old = calls.iter().filter(|(_, since)| since.elapsed() >= YOUNG);
        old.map(|(call, _)| *call).collect()
    }

    /// All live calls.
    pub(crate) fn all(&self) -> Vec<CallId> {
        self.0.iter().flat_map(|part| part.lock().keys().copied().collect::<Vec<_>>()).collect()
    }

    fn part(&self, call: CallId) -> &Part {
        let [.., last] = call.bytes();
        self.numbered(u64::from(last))
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder is less than the length")]
    fn numbered(&self, number: u64) -> &Part {
        &self.0[usize::try_from(number).unwrap_or_default() % PARTS]
    }
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_call_that_lasts_is_renewed_once_a_minute_until_it_is_removed() {
        let calls = LiveCalls::default();
        let mut ids: Vec<CallId> = (0..=255)
            .map(|number| CallId::new(Timestamp::from_unix_micros(0), [number; 10]))
            .collect();
        ids.sort();
        for id in &ids {
            calls.insert(*id);
        }
        let minute = async |from: u64| {
            let mut renewed = Vec::new();
            for second in from..from + 60 {
                renewed.extend(calls.due(second));
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            renewed.sort();
            renewed
        };

        let first = minute(100).await;
        assert!(first.len() < ids.len(), "young calls need no renewal");
        assert_eq!(minute(160).await, ids);

        for id in &ids[100..] {
            calls.remove(*id);
        }
        assert_eq!(minute(220).await, ids[..100]);
        assert!(calls.contains(ids[99]) && !calls.contains(ids[100]));
    }
}
