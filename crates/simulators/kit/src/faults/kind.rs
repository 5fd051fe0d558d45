//! What all families of faults have in common.

use http::StatusCode;

use super::input::{FaultField, FieldMistake, SentFields};
use crate::script::{SocketReply, WireReply};

/// How a fault changes responses, with its chosen fields.
pub(super) trait FaultEffect: std::fmt::Debug + Send + Sync {
    /// Applies it to the original response to a request at `path`.
    fn spoil(&self, reply: WireReply, path: &str) -> SocketReply;

    /// Whether it affects connections instead of requests.
    fn refuses_connections(&self) -> bool {
        false
    }

    /// The status of the platform's own refusal, for requests that are not carried out.
    fn refusal_status(&self) -> StatusCode {
        StatusCode::INTERNAL_SERVER_ERROR
    }
}

/// A fault of any family.
pub(super) type BoxedFault = Box<dyn FaultEffect>;

/// A kind of fault, requested by name.
pub(super) struct FaultKind {
    pub(super) name: &'static str,
    pub(super) says: &'static str,
    pub(super) fields: &'static [FaultField],
    /// Whether the platform carries out the request before it fails, unless the rule says
    /// otherwise.
    pub(super) carried_out: bool,
    /// The only platform that it applies to.
    pub(super) only_on: Option<&'static str>,
    pub(super) read: fn(&mut SentFields) -> Result<BoxedFault, FieldMistake>,
}

impl FaultKind {
    /// A kind without fields, for any platform, whose request is carried out.
    pub(super) const fn plain(
        name: &'static str,
        says: &'static str,
        read: fn(&mut SentFields) -> Result<BoxedFault, FieldMistake>,
    ) -> Self {
        Self { name, says, fields: &[], carried_out: true, only_on: None, read }
    }

    /// The same with fields.
    pub(super) const fn with(self, fields: &'static [FaultField]) -> Self {
        Self { fields, ..self }
    }

    /// The same, but the request is not carried out.
    pub(super) const fn not_carried_out(self) -> Self {
        Self { carried_out: false, ..self }
    }

    /// The same, but for this platform only.
    pub(super) const fn only_on(self, platform: &'static str) -> Self {
        Self { only_on: Some(platform), ..self }
    }
}
