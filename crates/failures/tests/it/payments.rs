//! Failures of payments: what was charged, and what to do next.

use domain::account::CreatorId;
use domain::id::OrderId;
use domain::platform::Platform;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;
use failures::{ChargePhase, ChargeUnderWay, Failure, PaymentProblem};
use processor_client::{PaymentDecline, ProcessorError, RateLimit, TransportTrouble};
use proptest::prelude::*;
use store::slot_assignment::OccupiedSlots;

const NOW: Timestamp = Timestamp::from_unix_micros(1_790_000_000_000_000);

fn trouble() -> TransportTrouble {
    TransportTrouble { what: "connection reset".to_owned(), request_id: None, source: None }
}

fn declined(decline_code: Option<&str>, code: Option<&str>) -> ProcessorError {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    ProcessorError::Declined(Box::new(PaymentDecline {
        code: owned(code),
        decline_code: owned(decline_code),
        message: Some("for people".to_owned()),
        ..PaymentDecline::default()
    }))
}

fn limited(retry_after_s: Option<u64>) -> PaymentProblem {
    ProcessorError::RateLimited(RateLimit { retry_after_s, request_id: None }).into()
}

#[test]
fn a_decline_tells_the_banks_reason_before_the_processors() {
    for (bank, processor, code) in [
        (Some("insufficient_funds"), Some("card_declined"), "insufficient_funds"),
        (None, Some("expired_card"), "expired_card"),
        (None, None, "generic_decline"),
    ] {
        let said = PaymentProblem::from(declined(bank, processor)).to_string();
        assert_eq!(said, format!("the payment was declined ({code}); nothing was changed"));
    }
}

#[test]
fn each_error_of_the_processor_says_what_was_charged() {
    for (error, said, is_unknown) in [
        (
            ProcessorError::Unreachable(trouble()),
            "the payment processor cannot be reached; nothing was charged or changed",
            false,
        ),
        (
            ProcessorError::Unknown(trouble()),
            "the payment processor did not confirm whether the payment was made; we look it up until it is confirmed and \
             never charge twice; see `GET /v1/billing/orders`",
            true,
        ),
        (
            ProcessorError::Missing,
            "something went wrong on our side; nothing was charged or changed",
            false,
        ),
        (
            ProcessorError::LockTimeout,
            "another change is in progress; try again in a moment",
            false,
        ),
        (
            ProcessorError::RateLimited(RateLimit::default()),
            "the payment processor limits requests; nothing was charged or changed; try again in 5 s",
            false,
        ),
    ] {
        let problem = PaymentProblem::from(error);
        assert_eq!(problem.is_outcome_unknown(), is_unknown, "{problem}");
        assert!(!problem.to_string().contains("connection reset"), "that is for logs");
        assert_eq!(Failure::from(problem).to_string(), said);
    }
}

#[test]
fn a_change_whose_outcome_is_not_known_is_told_apart_from_one_that_was_refused() {
    let unknown = [
        PaymentProblem::ChangeUnknown("chg_1".to_owned()),
        PaymentProblem::RelativeChangeUnknown("chg_1".to_owned()),
    ];
    for problem in unknown {
        assert!(problem.is_outcome_unknown());
        let said = problem.to_string();
        assert!(said.contains("did not confirm whether the change was made"), "{said}");
        assert!(!said.contains("nothing was"), "{said}");
    }
    for problem in [
        PaymentProblem::NotConfigured,
        PaymentProblem::NoSavedCard,
        PaymentProblem::ChangeInProgress,
        PaymentProblem::PaymentReversed,
        PaymentProblem::Failed { decline_code: "x".to_owned() },
        limited(Some(1)),
    ] {
        assert!(!problem.is_outcome_unknown(), "{problem}");
    }
}

proptest! {
    /// Whatever the processor says, a caller waits at least a second and at most an hour.
    #[test]
    fn the_wait_after_a_limit_is_within_bounds(seconds: u64) {
        let PaymentProblem::RateLimited { retry_after_s } = limited(Some(seconds)) else {
            return Err(TestCaseError::fail("another problem"));
        };

        prop_assert_eq!(retry_after_s, seconds.clamp(1, 3_600));
    }
}

#[test]
fn a_charge_in_progress_tells_what_it_waits_for_and_how_to_go_on() {
    let order = OrderId::new(NOW, [0; 10]);
    let said = |phase| {
        let under_way = ChargeUnderWay { order, intent: None, expires_at: NOW, phase };
        PaymentProblem::ChargeUnderWay(under_way).to_string()
    };
    let begun =
        format!("a charge of this pack is in progress with another `Idempotency-Key` ({order})");

    assert_eq!(said(ChargePhase::Running), format!("{begun}; try again in a moment"));
    assert_eq!(
        said(ChargePhase::Waiting),
        format!(
            "{begun} and waits for the customer to authenticate or for the bank. `POST /v1/billing/charge` for the same \
             pack without an `Idempotency-Key`, or with the one that it began with, returns what a browser needs to \
             finish it, then `POST /v1/billing/confirm-charge`. Otherwise it is cancelled after {NOW}"
        )
    );
    assert_eq!(
        said(ChargePhase::Unknown),
        format!(
            "{begun}, and the payment processor did not confirm whether it was paid. `POST /v1/billing/charge` for the \
             same pack without an `Idempotency-Key`, or with the one that it began with, asks again and never charges \
             twice"
        )
    );
}

#[test]
fn slots_in_use_are_named_with_what_would_take_their_place() {
    let ids = |ids: &[&str]| ids.iter().map(|id| id.parse().unwrap()).collect::<Vec<CreatorId>>();
    let said = |accounts: &[&str], waiting: &[&str]| {
        let occupied = OccupiedSlots {
            platform: Platform::ALPHA,
            must_free: 1,
            accounts: ids(accounts),
            waiting: ids(waiting),
        };
        PaymentProblem::SlotsInUse(occupied).to_string()
    };
    let alone = "1 of the 2 active accounts on platform_alpha must be switched off (`PATCH /v1/accounts/{account}` with \
                 `{\"state\": \"inactive\"}`) or deleted first: ada, bob";

    assert_eq!(said(&["ada", "bob"], &[]), alone);
    assert_eq!(
        said(&["ada", "bob"], &["cyd", "dee"]),
        format!(
            "{alone}. Accounts that wait for a slot would take the ones that become free; switch these off before: cyd, dee"
        )
    );
}

#[test]
fn the_state_of_a_subscription_and_the_place_of_a_slot_are_named() {
    let status = SubscriptionStatus::PastDue;
    assert_eq!(
        PaymentProblem::SubscriptionNotPaid { status }.to_string(),
        "the subscription is past_due; it can be changed once it is paid (see the portal)"
    );
    assert_eq!(
        PaymentProblem::NoSlot { platform: Platform::BETA }.to_string(),
        "there is no extra slot on platform_beta that could be switched; `GET /v1/billing/slots` shows how many there are"
    );
    assert_eq!(
        PaymentProblem::ThinEvent("v2.core.event".to_owned()).to_string(),
        "this is a thin event (`v2.core.event`), which is not supported; add a webhook endpoint with the payload style \
         \"snapshot\" instead, whose events have `\"object\": \"event\"`"
    );
    assert_eq!(
        PaymentProblem::UnsignedEvent("it is too old".to_owned()).to_string(),
        "the event is not accepted: it is too old"
    );
}
