//! Responses as signs of whether a platform still works as it used to.

use accounts::drift::{DriftKind, DriftResponse, DriftRoute};
use accounts::platform_health;
use http::StatusCode;

use super::account_entry::AccountEntry;
use crate::state::GatewayState;

/// What a response says about its platform.
#[derive(Debug, Clone, Copy)]
pub(super) struct DriftSign {
    pub(super) status: StatusCode,
    pub(super) lacks_envelope: bool,
}

/// Whether a response counts, and how it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountedSign {
    Counts(Option<DriftKind>),
    /// It says nothing about whether the platform has changed.
    SaysNothing,
}

/// Counts a response of the platform.
pub(super) fn note(
    gateway: &GatewayState,
    account: &AccountEntry,
    route: DriftRoute,
    sign: DriftSign,
) {
    let CountedSign::Counts(failure) = sign.counted() else { return };
    let response = DriftResponse {
        platform: account.platform,
        route,
        account: (account.customer, &account.creator),
        failure,
        at: gateway.clock.now(),
    };
    let within_s = gateway.config.platform_refusals.window_s;
    platform_health::note_response(gateway.accounts(), &response, within_s);
}

impl DriftSign {
    /// A platform that is down or asks for a pause has not changed.
    fn counted(self) -> CountedSign {
        CountedSign::Counts(match self.status.as_u16() {
            401 => Some(DriftKind::Unauthorized),
            403 => Some(DriftKind::Forbidden),
            404 => Some(DriftKind::NotFound),
            408 | 425 | 429 | 500.. => return CountedSign::SaysNothing,
            200..=299 if self.lacks_envelope => Some(DriftKind::Envelope),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_and_pauses_say_nothing_and_only_successes_need_an_envelope() {
        let counted = |status: u16, lacks_envelope| {
            let status = StatusCode::from_u16(status).unwrap();
            DriftSign { status, lacks_envelope }.counted()
        };

        for (status, failure) in [
            (200, None),
            (302, None),
            (401, Some(DriftKind::Unauthorized)),
            (403, Some(DriftKind::Forbidden)),
            (404, Some(DriftKind::NotFound)),
            (422, None),
        ] {
            assert_eq!(counted(status, false), CountedSign::Counts(failure), "{status}");
        }
        for status in [408, 429, 500, 503] {
            assert_eq!(counted(status, false), CountedSign::SaysNothing, "{status}");
        }
        assert_eq!(counted(200, true), CountedSign::Counts(Some(DriftKind::Envelope)));
        assert_eq!(counted(422, true), CountedSign::Counts(None));
    }
}
