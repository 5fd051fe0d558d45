//! The exact texts of failures: a program must not match them, and people act on every word.

use domain::account::CreatorId;
use domain::credits::Credits;
use domain::export::ExportState;
use domain::field_error::FieldErrorKind;
use domain::id::KeyId;
use domain::payment::OrderState;
use domain::platform::Platform;
use domain::staff::Permission;
use domain::time::Timestamp;
use failures::{AccountProblem, ExportProblem, Failure, FieldProblem, OperatorProblem};
use proptest::prelude::*;

const NOW: Timestamp = Timestamp::from_unix_micros(1_790_000_000_000_000);

fn creator(id: &str) -> CreatorId {
    id.parse().unwrap()
}

fn whole(credits: i64) -> Credits {
    Credits::from_whole(credits)
}

#[test]
fn what_a_request_costs_and_what_is_there_is_said_in_numbers() {
    let (balance, cost) = (whole(1), whole(2));
    let key = KeyId::new(NOW, [0; 10]);
    for (failure, text) in [
        (
            Failure::InsufficientCredits { balance, cost },
            "the balance is 1, this request costs 2".to_owned(),
        ),
        (
            Failure::TrialPending { balance, cost, trial: whole(300) },
            "the balance is 1, this request costs 2; confirm your email address to receive the 300 credits of your free \
             trial (`POST /v1/auth/email/resend` sends the link again)"
                .to_owned(),
        ),
        (
            Failure::InDebt { balance: whole(0), cost, debt: whole(50) },
            "50 credits are owed, which your next purchase pays first; the balance is 0, this costs 2".to_owned(),
        ),
        (
            Failure::KeyBudgetExhausted {
                key,
                budget: whole(100),
                used: whole(99),
                cost,
                resets_at: NOW.day().next_month_start().start(),
            },
            format!(
                "the key {key} has used, or holds for requests that are running, 99 of the 100 credits it \
                 may spend this UTC month, and this request costs 2; its budget resets at 2026-10-01T00:00:00.000000Z"
            ),
        ),
        (
            Failure::CostAboveMax { cost, max: whole(1) },
            "this request costs 2, and its `X-Max-Cost` allows 1; nothing was sent or charged".to_owned(),
        ),
        (
            Failure::TooManyTags(1_000),
            "1000 different values of `X-Tag` have been used today, which is the maximum; use one of them, or wait for \
             the next UTC day"
                .to_owned(),
        ),
        (
            Failure::TooManyKeys(50),
            "there are already 50 keys; delete one that is no longer used".to_owned(),
        ),
    ] {
        assert_eq!(failure.to_string(), text);
    }
}

#[test]
fn missing_rights_are_listed() {
    for (failure, text) in [
        (
            Failure::MissingScope(vec!["posts:read".to_owned(), "posts:write".to_owned()]),
            "the account's access token lacks these scopes: posts:read, posts:write",
        ),
        (Failure::MissingPermission(Permission::TO_LOOK), "this takes the permission support.read"),
        (
            Failure::MissingPermission(Permission::TO_MANAGE_EXPORTS),
            "this takes the permissions support.read, data-export.manage",
        ),
        (
            Failure::ReadOnlyKey,
            "this key is read-only; a full-scope key is needed for this request",
        ),
        (
            Failure::LimitedKey,
            "this key is limited (accounts, budget or expiry); use a session or a key without limits for this request",
        ),
    ] {
        assert_eq!(failure.to_string(), text);
    }
}

/// A client that guesses keys, sessions or addresses must not learn which of them exist.
#[test]
fn a_refused_caller_is_told_nothing_about_what_exists() {
    for (failure, text) in [
        (
            Failure::InvalidKey,
            "the key is not valid; check that it is complete and has not been rotated",
        ),
        (Failure::InvalidSession, "the session has ended; log in again"),
        (Failure::WrongCredentials, "the email address or the password is wrong"),
        (
            Failure::SupportAccessClosed,
            "there is no customer with that id who currently allows support access",
        ),
        (
            Failure::AccountNotFound,
            "there is no account with that id; `GET /v1/accounts` lists yours",
        ),
        (Failure::UnknownLink, "this link is not valid; request a new one"),
        (
            ExportProblem::InvalidLink.into(),
            "this link is not valid or has expired; `GET /v1/exports/{job_id}` returns a new one",
        ),
    ] {
        assert_eq!(failure.to_string(), text);
    }
}

#[test]
fn an_account_that_cannot_be_used_says_how_to_change_that() {
    let ada = creator("ada");
    for (problem, text) in [
        (
            AccountProblem::of_inactive(&ada, true),
            "the account `ada` is switched off; switch it on with `PATCH /v1/accounts/ada` and `{\"state\": \"active\"}`",
        ),
        (
            AccountProblem::of_inactive(&ada, false),
            "the account `ada` is inactive: the plan has no free slot for it; switch another account of the platform off \
             or delete it, or add slots",
        ),
        (
            AccountProblem::CreatorExists(Platform::BETA),
            "this creator_id is already connected on platform_beta; delete that account first or choose another id",
        ),
    ] {
        assert_eq!(Failure::from(problem).to_string(), text);
    }
    let other = Failure::OtherIdentity {
        creator: ada,
        connected: "4711".to_owned(),
        presented: "4712".to_owned(),
    };
    assert_eq!(
        other.to_string(),
        "the account `ada` is connected as 4711, and these credentials belong to 4712; use another creator_id, or send \
         `\"replace_identity\": true` if `ada` is to be the other account from now on"
    );
}

/// A key that is limited to some accounts cannot buy slots, and slots are sold for some platforms
/// only: nobody is sent to do what they cannot.
#[test]
fn whoever_finds_no_free_slot_is_told_what_they_themselves_can_do() {
    let said = |platform, accounts: &[&str], is_limited| {
        let accounts = accounts.iter().map(|id| creator(id)).collect();
        AccountProblem::NoFreeSlot { platform, limit: 2, accounts, is_limited }.to_string()
    };
    let begin = |platform| {
        format!(
            "the account cannot be switched on: 2 accounts may be active on {platform}, and no slot is free; "
        )
    };
    let off = "(`PATCH /v1/accounts/{account}` with `{\"state\": \"inactive\"}`)";

    assert_eq!(
        said(Platform::ALPHA, &["ada"], false),
        format!(
            "{}switch another one off {off}, delete one, or add a slot with `POST /v1/billing/slots`",
            begin("platform_alpha")
        )
    );
    assert_eq!(
        said(Platform::GAMMA, &["ada"], false),
        format!(
            "{}switch another one off {off}, delete one, or choose a plan with more accounts",
            begin("platform_gamma")
        )
    );
    for platform in [Platform::ALPHA, Platform::GAMMA] {
        assert_eq!(
            said(platform, &["ada"], true),
            format!(
                "{}switch another one of this key's off {off} or delete one; a key without limits or a login can add a slot",
                begin(platform.as_str())
            )
        );
        assert_eq!(
            said(platform, &[], true),
            format!(
                "{}none of these accounts is this key's; a key without limits or a login can switch one off, delete one, \
                 or add a slot",
                begin(platform.as_str())
            )
        );
    }
}

#[test]
fn credentials_that_are_refused_come_with_the_platforms_status_if_it_responded() {
    let said = |status| Failure::VerificationFailed { status }.to_string();

    assert_eq!(said(None), "the platform did not confirm these credentials");
    assert_eq!(
        said(Some(403)),
        "the platform did not confirm these credentials (it responded 403)"
    );
    let refusing = Failure::PlatformRefusing(Platform::ALPHA).to_string();
    assert_eq!(
        refusing,
        "platform_alpha currently refuses the credentials of all accounts, so nothing is known about these; nothing was \
         stored or charged; try again later (`GET /v1/platforms` says when it accepts credentials again)"
    );
}

#[test]
fn an_export_that_has_no_file_says_why() {
    for (problem, text) in [
        (
            ExportProblem::Over(ExportState::Completed),
            "the export has already ended (completed); nothing was changed",
        ),
        (ExportProblem::NotReady(ExportState::Failed), "the export has no file: it is failed"),
        (
            ExportProblem::NotOver,
            "the export is still running; cancel it first, and wait until it has stopped",
        ),
        (
            ExportProblem::TooMany(5),
            "5 exports are already waiting; wait for some to finish, or cancel them",
        ),
        (
            ExportProblem::RangeBehindEnd(10),
            "the file has 10 bytes; the range starts after its end",
        ),
        (
            ExportProblem::Expired,
            "the export's file has expired and was deleted; create a new export",
        ),
        (
            ExportProblem::FileMissing,
            "the export's file is no longer in the storage of the service, which removed it before `expires_at`; create a \
             new export",
        ),
        (
            ExportProblem::MediaArchive {
                field: "dataset",
                why: catalog::dataset::MediaArchive::Disabled,
            },
            "media archives are not available for this platform (disabled); `GET /v1/exports/datasets` lists what can be \
             exported",
        ),
    ] {
        assert_eq!(Failure::from(problem).to_string(), text);
    }
}

#[test]
fn an_operator_is_told_what_is_missing_and_what_to_do_instead() {
    for (problem, text) in [
        (
            OperatorProblem::Unknown { what: "customer", given: "ada@example.com".to_owned() },
            "there is no customer ada@example.com",
        ),
        (
            OperatorProblem::NotErasable(vec!["it has a subscription", "a payment is open"]),
            "the customer cannot be erased yet: it has a subscription; a payment is open",
        ),
        (
            OperatorProblem::WouldForfeit { credits: 5_000, cents: 2_000 },
            "the customer would lose 5000 credits that it paid for, and 2000 cents of credit at the payment processor; \
             pay them back first, or repeat the command with --forfeit",
        ),
        (
            OperatorProblem::NotRefundable(OrderState::Pending),
            "the order is pending; only a paid order can be refunded",
        ),
        (
            OperatorProblem::SettledOtherwise("granted".to_owned()),
            "this payment was settled before: granted; nothing was changed",
        ),
        (
            OperatorProblem::NotAPayment("in_1".to_owned()),
            "only a payment intent (pi_…) can be refunded from here; refund in_1 at the payment processor and settle it \
             with a note",
        ),
        (
            OperatorProblem::NothingPaid,
            "nothing was paid for the order, so there is nothing to give back; grant a negative number of credits to take \
             its credits",
        ),
        (OperatorProblem::NotGranted("used before"), "these credits were not granted: used before"),
    ] {
        assert_eq!(Failure::from(problem).to_string(), text);
    }
}

/// The message of every failure that may be sent to a platform or charged says that it was not.
#[test]
fn a_refused_call_says_that_nothing_was_charged() {
    for failure in [
        Failure::PlatformUnreachable,
        Failure::BadPlatformAnswer("it was cut short"),
        Failure::PlatformTimeout,
        Failure::Overloaded,
        Failure::NotMetered,
        Failure::CustomerSuspended,
        Failure::Internal("the file /etc/secret is gone".to_owned()),
    ] {
        let said = failure.to_string();
        assert!(said.contains("charged"), "{said}");
        assert!(said.contains("nothing"), "{said}");
    }
}

#[test]
fn what_went_wrong_on_our_side_is_not_told() {
    let hush = "password=hush".to_owned();

    let internal = Failure::Internal(hush.clone()).to_string();
    let store = Failure::Store(store::StoreError::Url(hush)).to_string();

    assert_eq!(internal, "something went wrong on our side; nothing was charged");
    assert_eq!(store, internal);
}

#[test]
fn a_field_is_written_as_tools_for_apis_expect_it() {
    let problem =
        FieldProblem::new("query", "limit", FieldErrorKind::OutOfRange, "must be 1 to 100");
    assert_eq!(
        serde_json::to_string(&problem).unwrap(),
        r#"{"loc":["query","limit"],"msg":"must be 1 to 100","type":"out_of_range"}"#
    );
    let of_catalog = catalog::FieldProblem {
        location: vec!["body".to_owned(), "items".to_owned(), "0".to_owned()],
        message: "must be a number".to_owned(),
        kind: FieldErrorKind::WrongType,
    };
    let own = FieldProblem::from(of_catalog);
    assert_eq!(own.loc, ["body", "items", "0"]);
    assert_eq!((own.msg.as_str(), own.kind), ("must be a number", FieldErrorKind::WrongType));
}

proptest! {
    /// Texts are put into sentences: none ends one by itself, begins a line, or shows how a value
    /// is written in the code.
    #[test]
    fn a_failure_is_one_sentence_without_words_of_the_code(number: i64, id in "[A-Za-z0-9_-]{1,20}", is_limited: bool) {
        let accounts = vec![format!("x{id}").parse::<CreatorId>().unwrap()];
        let ada = accounts[0].clone();
        for failure in [
            Failure::InDebt { balance: whole(number), cost: whole(number), debt: whole(number) },
            Failure::TooManyKeys(number),
            Failure::RouteNotListed(Platform::DELTA),
            Failure::PlatformNotOffered(Platform::DELTA),
            Failure::UnsupportedPlatform(Platform::DELTA),
            Failure::TooManyInFlight("customer"),
            Failure::CredentialsUnusable("a header holds a line break".to_owned()),
            AccountProblem::SwitchedOff(ada.clone()).into(),
            AccountProblem::NoFreeSlot { platform: Platform::BETA, limit: number, accounts, is_limited }.into(),
            Failure::OtherIdentity { creator: ada, connected: id.clone(), presented: id },
            ExportProblem::RangeBehindEnd(number).into(),
        ] {
            let said = failure.to_string();
            prop_assert!(!said.ends_with('.') && !said.contains('\n') && !said.contains("  "), "{}", said);
            for word in ["Some(", "None", "Credits(", "Platform(", "CreatorId("] {
                prop_assert!(!said.contains(word), "{}", said);
            }
        }
    }
}
