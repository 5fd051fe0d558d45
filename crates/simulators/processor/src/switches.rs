//! What is to go wrong on purpose: switches that requests meet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum FaultSwitch {
    /// Carried out, and then no answer ever comes.
    HangAfter,
    /// Not carried out, and no answer ever comes.
    HangBefore,
    /// Carried out, and then 500; the 500 is what its key answers from then on.
    ErrorAfter,
    /// 500, and nothing is carried out.
    ErrorBefore,
    /// Carried out, and then the connection is closed.
    CloseAfter,
    /// 429 `lock_timeout`.
    LockTimeout,
    /// 429 `rate_limit`, and after how many seconds to come again, if that is to be said.
    RateLimit {
        #[serde(default)]
        retry_after_s: Option<u64>,
    },
    /// 503.
    Unavailable,
    /// Carried out this many milliseconds later; its key and its object are busy until then.
    Delay { ms: u64 },
}

/// A switch and the requests that meet it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SwitchRule {
    #[serde(default)]
    id: u64,
    #[serde(flatten)]
    switch: FaultSwitch,
    /// Only this method.
    #[serde(default)]
    method: Option<String>,
    /// Only this path or template, without `/v1/`, such as `payment_intents/{id}/confirm`.
    #[serde(default)]
    path: Option<String>,
    /// How many requests that fit are left alone first.
    #[serde(default)]
    after: u64,
    /// How many requests meet it; 1 when absent.
    #[serde(default = "once")]
    times: u64,
}

fn once() -> u64 {
    1
}

/// A request, as far as switches look at it.
pub(crate) struct SwitchCandidate<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) template: &'a str,
}

/// All switches that are set.
#[derive(Debug, Default)]
pub(crate) struct FaultSwitches {
    rules: Mutex<(u64, Vec<SwitchRule>)>,
}

impl FaultSwitches {
    fn rules(&self) -> MutexGuard<'_, (u64, Vec<SwitchRule>)> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a switch; gives its id.
    pub(crate) fn add(&self, rule: SwitchRule) -> u64 {
        let mut rules = self.rules();
        rules.0 += 1;
        let id = rules.0;
        rules.1.push(SwitchRule { id, ..rule });
        id
    }

    /// Takes all switches back; gives how many there were.
    pub(crate) fn clear(&self) -> usize {
        std::mem::take(&mut self.rules().1).len()
    }

    /// All of them.
    pub(crate) fn shown(&self) -> Value {
        json!(self.rules().1)
    }

    /// What a request meets; the first that fits.
    pub(crate) fn choose(&self, asked: &SwitchCandidate<'_>) -> Option<FaultSwitch> {
        let mut rules = self.rules();
        let mut met = None;
        for rule in &mut rules.1 {
            let method = rule
                .method
                .as_deref()
                .is_none_or(|method| method.eq_ignore_ascii_case(asked.method));
            let template = asked.template.replace("{}", "{id}");
            let path =
                rule.path.as_deref().map(|path| path.trim_start_matches("/v1/").trim_matches('/'));
            if !method || !path.is_none_or(|path| path == asked.path || path == template) {
                continue;
            }
            if rule.after > 0 {
                rule.after -= 1;
                continue;
            }
            rule.times = rule.times.saturating_sub(1);
            met = Some(rule.switch);
            break;
        }
        rules.1.retain(|rule| rule.times > 0);
        met
    }
}
