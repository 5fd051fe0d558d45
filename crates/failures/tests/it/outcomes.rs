//! Requests to a platform without a usable response: what may be repeated, and what is not known.

use std::time::Duration;

use domain::id::CallId;
use domain::time::Timestamp;
use failures::{Failure, NotStored, UnknownOutcome, UnknownReason};
use platform_client::{CallErrorKind, CallFault, CallPhase, ClientError};

const CLOSED: &str = "the connection was closed before it began";

fn call() -> CallId {
    CallId::new(Timestamp::from_unix_micros(1_790_000_000_000_000), [0; 10])
}

fn error(kind: CallErrorKind, sent: bool) -> ClientError {
    ClientError { fault: CallFault::Theirs, kind, sent, retryable: false, source: None }
}

fn every_kind() -> [CallErrorKind; 10] {
    [
        CallErrorKind::Connect,
        CallErrorKind::Tls,
        CallErrorKind::Timeout(CallPhase::Connect),
        CallErrorKind::Timeout(CallPhase::Tls),
        CallErrorKind::Timeout(CallPhase::FirstByte),
        CallErrorKind::Timeout(CallPhase::BetweenBytes),
        CallErrorKind::BadResponse("it was cut short"),
        CallErrorKind::Closed,
        CallErrorKind::Build,
        CallErrorKind::Signing("the signer is gone"),
    ]
}

#[test]
fn what_was_certainly_not_sent_did_not_reach_the_platform() {
    for kind in every_kind() {
        let failure = Failure::of_harmless(&error(kind, false));
        assert!(matches!(failure, Failure::PlatformUnreachable), "{kind:?}: {failure}");
    }
}

#[test]
fn a_read_that_was_sent_fails_as_late_or_as_a_bad_response_and_never_as_unknown() {
    for kind in every_kind() {
        let failure = Failure::of_harmless(&error(kind, true));
        match kind {
            CallErrorKind::Timeout(_) => assert!(matches!(failure, Failure::PlatformTimeout)),
            CallErrorKind::BadResponse(what) => {
                assert!(matches!(failure, Failure::BadPlatformAnswer(said) if said == what));
            }
            _ => assert!(matches!(failure, Failure::BadPlatformAnswer(CLOSED)), "{kind:?}"),
        }
    }
}

#[test]
fn a_write_says_why_its_outcome_is_not_known() {
    for kind in every_kind() {
        let unknown = UnknownOutcome::of(&error(kind, true), call(), Some(200), false);
        let reason = match kind {
            CallErrorKind::Timeout(_) => UnknownReason::Late,
            CallErrorKind::BadResponse(what) => UnknownReason::Unusable(what),
            _ => UnknownReason::Unusable(CLOSED),
        };
        let expected = UnknownOutcome {
            call: Some(call()),
            reason,
            platform_status: Some(200),
            has_key: false,
        };
        assert_eq!(unknown, expected, "{kind:?}");
    }
}

#[test]
fn a_write_without_a_key_is_told_of_keys_and_one_with_a_key_of_a_new_one() {
    let late = error(CallErrorKind::Timeout(CallPhase::FirstByte), true);
    let lost = error(CallErrorKind::BadResponse("it was cut short"), true);
    let middle = "; the request may have taken effect, and nothing was charged. Check on the platform whether it did, and \
                  repeat it only if it did not, ";
    let (without, with) = (
        "with an `Idempotency-Key`: repetitions under one key are sent once",
        "with a new Idempotency-Key",
    );

    assert_eq!(
        UnknownOutcome::of(&late, call(), None, false).to_string(),
        format!("the platform's response timed out{middle}{without}")
    );
    assert_eq!(
        UnknownOutcome::of(&lost, call(), None, true).to_string(),
        format!(
            "the platform's response was lost or cannot be used (it was cut short){middle}{with}"
        )
    );
    assert_eq!(
        UnknownOutcome::repeated(call()).to_string(),
        format!(
            "the platform's response to the first request with this Idempotency-Key was lost{middle}{with}"
        )
    );
}

#[test]
fn a_repetition_has_a_key_and_no_status_of_a_platform() {
    let (of_call, of_own) = (UnknownOutcome::repeated(call()), UnknownOutcome::of_own_request());

    assert_eq!((of_call.call, of_own.call), (Some(call()), None));
    assert!(of_call.has_key && of_own.has_key);
    assert_eq!((of_call.platform_status, of_own.platform_status), (None, None));
    assert_eq!(
        Failure::OutcomeUnknown(of_own).to_string(),
        "the first request with this Idempotency-Key was interrupted on our side and may have taken effect; check \
         whether it took effect, and repeat it with a new Idempotency-Key only if it did not"
    );
}

#[test]
fn a_response_that_was_not_stored_names_its_call_if_there_is_one() {
    let said = |call| Failure::AnswerNotStored(NotStored(call)).to_string();

    let begun = "the first request was carried out, and its response could not be stored";
    assert_eq!(said(None), begun);
    assert_eq!(said(Some(call())), format!("{begun}; its call is {}", call()));
}

/// A platform's fault is described by its phase and reason, never by an address.
#[test]
fn a_deadline_of_the_database_is_a_failure_on_our_side() {
    let waited = Duration::from_secs(5);
    let failure = Failure::from(store::StoreError::Deadline { doing: "connecting", waited });

    assert!(matches!(failure, Failure::Store(_)));
    assert_eq!(failure.to_string(), "something went wrong on our side; nothing was charged");
}
