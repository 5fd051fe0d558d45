//! A rule: which requests a fault applies to, and how often.

use std::sync::Arc;

use http::Method;
use serde_json::{Map, Value, json};

use super::FaultTarget;
use super::catalogue;
use super::input::{FieldMistake, SentFields};
use super::kind::{BoxedFault, FaultKind};
use crate::script::{SocketReply, WireReply};
use crate::seeded_random::SeededRandom;

/// The fields of every rule.
const FIELDS: [&str; 9] =
    ["kind", "platform", "method", "path", "after", "times", "probability", "seed", "carried_out"];

const NUMBER_MAX: u64 = 1_000_000_000;

/// Probabilities are counted in millionths.
const MILLION: u64 = 1_000_000;

/// The parts of a request that rules match.
#[derive(Clone, Copy, Debug)]
pub struct FaultCandidate<'a> {
    /// The name of the target that received it.
    pub platform: &'a str,
    /// Its method.
    pub method: &'a Method,
    /// Its path, without the base path of the platform and without a leading slash.
    pub path: &'a str,
    /// The template of its route, if it has one.
    pub template: Option<&'a str>,
}

/// The fault that applies to a request.
#[derive(Debug)]
pub struct ChosenFault {
    /// The name of its kind.
    pub kind: &'static str,
    /// Whether the request is carried out before it fails.
    pub carried_out: bool,
    fault: BoxedFault,
}

impl ChosenFault {
    /// Applies the fault to the original response to a request at `path`.
    pub fn spoil(&self, reply: WireReply, path: &str) -> SocketReply {
        self.fault.spoil(reply, path)
    }

    /// The status of the refusal that replaces the response if the request is not carried out.
    pub fn refusal_status(&self) -> http::StatusCode {
        self.fault.refusal_status()
    }
}

/// One rule, as it was requested, and its progress.
#[derive(Debug)]
pub(super) struct FaultRule {
    pub(super) id: u64,
    wanted: RuleTarget,
    /// The number of matching requests that are left alone first.
    after: u64,
    /// The number of requests that it applies to; all if absent.
    times: Option<u64>,
    /// In millionths.
    probability: u64,
    random: SeededRandom,
    /// The number of matching requests, and of those that the fault applied to.
    fitted: u64,
    met: u64,
    chosen: Arc<ChosenFault>,
    asked_for: Map<String, Value>,
}

/// Which requests a rule matches; an absent condition matches all.
#[derive(Debug)]
struct RuleTarget {
    platform: Option<String>,
    method: Option<Method>,
    path: Option<String>,
}

impl FaultRule {
    pub(super) fn read(
        id: u64,
        sent: Map<String, Value>,
        targets: &[&dyn FaultTarget],
    ) -> Result<Self, FieldMistake> {
        let mut fields = SentFields::of(sent);
        let kind = catalogue::kind(&fields.text("kind")?.unwrap_or_default())?;
        let wanted = RuleTarget::read(&mut fields, kind, targets)?;
        let after = fields.whole("after", 0, NUMBER_MAX)?.unwrap_or(0);
        let times = fields.whole("times", 1, NUMBER_MAX)?;
        let probability = fields.probability("probability")?.map_or(MILLION, millionths);
        let seed = fields.whole("seed", 0, u64::MAX)?.unwrap_or(id);
        let carried_out = fields.truth("carried_out")?.unwrap_or(kind.carried_out);
        let fault = (kind.read)(&mut fields)?;
        let known: Vec<&str> =
            FIELDS.into_iter().chain(kind.fields.iter().map(|field| field.name)).collect();
        let asked_for = fields.finish(&known)?;
        if fault.refuses_connections() {
            let about_requests = FIELDS.iter().skip(2).find(|name| asked_for.contains_key(**name));
            if let Some(name) = about_requests {
                let problem = "must be left out: refused connections carry no requests";
                return Err(FieldMistake::new(name, problem));
            }
        }
        Ok(Self {
            id,
            wanted,
            after,
            times,
            probability,
            random: SeededRandom::of(seed, 0, 0),
            fitted: 0,
            met: 0,
            chosen: Arc::new(ChosenFault { kind: kind.name, fault, carried_out }),
            asked_for,
        })
    }

    pub(super) fn shown(&self) -> Value {
        let mut shown = self.asked_for.clone();
        shown.insert("id".to_owned(), json!(self.id));
        shown.insert("carried_out".to_owned(), json!(self.chosen.carried_out));
        shown.insert("met".to_owned(), json!(self.met));
        shown.insert("left".to_owned(), json!(self.times.map(|times| times - self.met)));
        Value::Object(shown)
    }

    /// Whether it refuses all connections to this platform.
    pub(super) fn refuses(&self, platform: &str) -> bool {
        self.chosen.fault.refuses_connections() && self.wanted.has_platform(platform)
    }

    /// The fault if it applies to the request; counts the request if it matches.
    pub(super) fn choose(&mut self, asked: &FaultCandidate<'_>) -> Option<Arc<ChosenFault>> {
        if !self.wanted.fits(asked) || self.times.is_some_and(|times| self.met >= times) {
            return None;
        }
        self.fitted += 1;
        if self.fitted <= self.after || self.random.below(MILLION) >= self.probability {
            return None;
        }
        self.met += 1;
        Some(Arc::clone(&self.chosen))
    }
}

impl RuleTarget {
    fn read(
        fields: &mut SentFields,
        kind: &FaultKind,
        targets: &[&dyn FaultTarget],
    ) -> Result<Self, FieldMistake> {
        let platform = fields.text("platform")?;
        let names: Vec<&str> = targets.iter().map(|target| target.name()).collect();
        if platform.as_ref().is_some_and(|name| !names.contains(&name.as_str())) {
            return Err(FieldMistake::new(
                "platform",
                format!("must be one of {}", names.join(", ")),
            ));
        }
        if let Some(only) = kind.only_on.filter(|only| platform.as_deref() != Some(*only)) {
            return Err(FieldMistake::new("platform", format!("must be {only} for this kind")));
        }
        let method = fields.text("method")?.map(|method| {
            let known = ["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method.as_str());
            let parsed = Method::from_bytes(method.as_bytes()).ok().filter(|_| known);
            parsed.ok_or_else(|| {
                FieldMistake::new("method", "must be GET, POST, PUT, PATCH or DELETE")
            })
        });
        let method = method.transpose()?;
        let path = fields.text("path")?.map(|path| path.trim_start_matches('/').to_owned());
        let wanted = Self { platform, method, path };
        wanted.leads_somewhere(targets)?;
        Ok(wanted)
    }

    /// A path must be that of a route, or its template, on one of the platforms that the rule
    /// matches.
    fn leads_somewhere(&self, targets: &[&dyn FaultTarget]) -> Result<(), FieldMistake> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut meant = targets.iter().filter(|target| self.has_platform(target.name()));
        if meant.any(|target| target.has_route(self.method.as_ref(), path)) {
            return Ok(());
        }
        let method = self.method.as_ref().map_or_else(String::new, |method| format!("{method} "));
        let place = self.platform.as_deref().unwrap_or("any platform");
        let problem = format!(
            "must be a path or a template of {place} as /control/routes lists them, without the \
             base path; there is no {method}{path}"
        );
        Err(FieldMistake::new("path", problem))
    }

    fn has_platform(&self, name: &str) -> bool {
        self.platform.as_deref().is_none_or(|platform| platform == name)
    }

    fn fits(&self, asked: &FaultCandidate<'_>) -> bool {
        self.has_platform(asked.platform)
            && self.method.as_ref().is_none_or(|method| method == asked.method)
            && self.path.as_deref().is_none_or(|path| {
                path == asked.path || asked.template.is_some_and(|template| template == path)
            })
    }
}

/// A probability above 0 and up to 1, in millionths, at least one of them.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is above 0 and at most a million"
)]
fn millionths(probability: f64) -> u64 {
    ((probability * 1e6).round() as u64).max(1)
}
