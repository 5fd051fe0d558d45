//! Faults on demand: failures of a platform that a test requests at `/control/faults`.
//!
//! A rule says which requests a fault applies to, and how often. Each family of faults has a file:
//! its kinds, their fields, and how they change the original response. A response that HTTP can
//! still carry is a [`SocketReply::Whole`]; anything else is a [`SocketScript`] of bytes and pauses
//! that is played on the socket itself.
//!
//! [`SocketReply::Whole`]: crate::script::SocketReply::Whole
//! [`SocketScript`]: crate::script::SocketScript

mod bodies;
mod bombs;
mod catalogue;
mod connection;
mod framing;
mod heads;
mod input;
mod kind;
mod pages;
mod rule;
mod timing;

use std::sync::{Arc, Mutex, PoisonError};

use http::Method;
use serde_json::{Map, Value, json};

pub use self::input::FieldMistake;
use self::rule::FaultRule;
pub use self::rule::{ChosenFault, FaultCandidate};

/// The most rules; rules that are used up count until they are removed.
const RULES_MAX: usize = 256;

/// A target of faults, such as a platform.
pub trait FaultTarget {
    /// Its name, and that of its own port.
    fn name(&self) -> &'static str;

    /// Whether it has a route with this template or at this path, for the method or for any.
    fn has_route(&self, method: Option<&Method>, path: &str) -> bool;
}

/// The active rules.
#[derive(Debug, Default)]
pub struct FaultRules(Mutex<RuleList>);

#[derive(Debug, Default)]
struct RuleList {
    /// In the order in which they were added; the first one that matches a request applies.
    rules: Vec<FaultRule>,
    last_id: u64,
}

impl FaultRules {
    /// Adds the rule that the JSON describes, and returns it as JSON. A mistake names its field.
    pub fn add(
        &self,
        body: Map<String, Value>,
        targets: &[&dyn FaultTarget],
    ) -> Result<Value, FieldMistake> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.rules.len() >= RULES_MAX {
            let problem = format!("there are already {RULES_MAX} faults; remove some first");
            return Err(FieldMistake::new("kind", problem));
        }
        let rule = FaultRule::read(all.last_id + 1, body, targets)?;
        let shown = rule.shown();
        all.last_id += 1;
        all.rules.push(rule);
        Ok(shown)
    }

    /// All rules, and every kind of fault.
    pub fn shown(&self) -> Value {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rules: Vec<Value> = all.rules.iter().map(FaultRule::shown).collect();
        json!({"faults": rules, "catalogue": catalogue::shown()})
    }

    /// Removes the rule with this number; returns false if there is none.
    pub fn remove(&self, id: u64) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.rules.len();
        all.rules.retain(|rule| rule.id != id);
        all.rules.len() < before
    }

    /// Removes all rules; returns their number.
    pub fn clear(&self) -> usize {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut all.rules).len()
    }

    /// Whether connections to this platform are refused.
    pub fn refuses(&self, platform: &str) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.rules.iter().any(|rule| rule.refuses(platform))
    }

    /// The fault that applies to this request; counts its application.
    pub fn choose(&self, asked: &FaultCandidate<'_>) -> Option<Arc<ChosenFault>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.rules.iter_mut().find_map(|rule| rule.choose(asked))
    }
}
