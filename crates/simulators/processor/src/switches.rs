//! Faults on demand: switches that apply to requests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum FaultSwitch {
    /// Carried out, but no response is ever sent.
    HangAfter,
    /// Not carried out, and no response is ever sent.
    HangBefore,
    /// Carried out, then 500; the 500 is stored under its key.
    ErrorAfter,
    /// 500, and not carried out.
    ErrorBefore,
    /// Carried out, then the connection is closed.
    CloseAfter,
    /// 429 `lock_timeout`.
    LockTimeout,
    /// 429 `rate_limit`, optionally with the seconds after which to retry.
    RateLimit {
        #[serde(default)]
        retry_after_s: Option<u64>,
    },
    /// 503.
    Unavailable,
    /// Carried out after this many milliseconds; its key and its object are busy until then.
    Delay { ms: u64 },
}

/// A switch and the requests that it applies to.
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
    /// The number of matching requests that are left alone first.
    #[serde(default)]
    after: u64,
    /// The number of requests that it applies to; by default 1.
    #[serde(default = "once")]
    times: u64,
}

fn once() -> u64 {
    1
}

/// The parts of a request that switches match.
pub(crate) struct SwitchCandidate<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) template: &'a str,
}

/// All active switches.
#[derive(Debug, Default)]
pub(crate) struct FaultSwitches {
    rules: Mutex<(u64, Vec<SwitchRule>)>,
}

impl FaultSwitches {
    fn rules(&self) -> MutexGuard<'_, (u64, Vec<SwitchRule>)> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a switch; returns its id.
    pub(crate) fn add(&self, rule: SwitchRule) -> u64 {
        let mut rules = self.rules();
        rules.0 += 1;
        let id = rules.0;
        rules.1.push(SwitchRule { id, ..rule });
        id
    }

    /// Removes all switches; returns their number.
    pub(crate) fn clear(&self) -> usize {
        std::mem::take(&mut self.rules().1).len()
    }

    /// All switches.
    pub(crate) fn shown(&self) -> Value {
        json!(self.rules().1)
    }

    /// The fault for a request, from the first matching switch.
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
