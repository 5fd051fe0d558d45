//! Which envelope a platform's answers come in, if they come in one.

use outbound::SettingsProblem;

use super::envelope::{self, EnvelopeContent};
use super::envelope_pointers::EnvelopePointers;
use super::settings::TargetSettings;

/// How an envelope is taken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EnvelopeKind {
    None,
    /// `{"success": true, "response": …}`.
    Response,
    Pointers(EnvelopePointers),
}

impl EnvelopeKind {
    /// Checks the settings; problems are added with the names of their keys.
    pub(super) fn new(settings: &TargetSettings, problems: &mut Vec<SettingsProblem>) -> Self {
        match &settings.envelope_pointers {
            Some(pointers) => {
                EnvelopePointers::new(pointers, problems).map_or(Self::None, Self::Pointers)
            }
            None if settings.envelope => Self::Response,
            None => Self::None,
        }
    }

    /// Takes it off a JSON answer.
    pub(super) fn unwrap(&self, body: &[u8]) -> EnvelopeContent {
        match self {
            Self::None => EnvelopeContent::Kept,
            Self::Response => envelope::unwrap(body),
            Self::Pointers(pointers) => pointers.unwrap(body),
        }
    }
}
