//! Emailed links: registration enqueues its email, a link works once, and a trial is granted once.

use domain::customer::{Email, TrialState};
use domain::id::{CustomerId, EntryId, JobId};
use domain::job::JobKind;
use domain::mail::LinkPurpose;
use domain::time::Timestamp;
use domain::token::{SecretToken, TokenHash};
use store::confirmations::{self, ConfirmationOutcome, EmailConfirmation, TrialGrant};
use store::customers::{self, NewCustomer, PasswordHash};
use store::email_changes::{self, EmailChange};
use store::ended_credentials::LastingCredentials;
use store::jobs::{self, NewJob};
use store::ledger_pages::{self, LedgerQuery};
use store::mail_links::{self, LinkState, NewEmailLink};
use store::password_resets::{self, PasswordReset, PasswordResetOutcome};
use store::registration::{self, NewRegistration, RegistrationOutcome, TrialLimit};
use store::usage::UsageOf;
use store::{Store, testing};

use crate::support::{NOON, assert_sound, credits, new_customer, unique};

fn email(text: &str) -> Email {
    text.parse().unwrap()
}

fn hash() -> TokenHash {
    let mut bytes = [0; 32];
    bytes[..10].copy_from_slice(&unique());
    SecretToken::new(bytes).hash()
}

fn notice() -> NewJob {
    NewJob {
        id: JobId::new(NOON, unique()),
        kind: JobKind::SendMail,
        payload: "{}".to_owned(),
        created_at: NOON,
    }
}

async fn registered(store: &Store, address: &str) -> NewCustomer {
    let new = new_customer(address);
    customers::create(store, &new).await.unwrap();
    new
}

/// A link emailed to the address at `NOON`; none if it could not be used.
async fn try_link(
    store: &Store,
    customer: CustomerId,
    purpose: LinkPurpose,
    address: &str,
) -> Option<TokenHash> {
    let link =
        NewEmailLink { hash: hash(), customer, purpose, email: email(address), created_at: NOON };
    mail_links::create(store, &link).await.unwrap().then_some(link.hash)
}

async fn link(
    store: &Store,
    customer: CustomerId,
    purpose: LinkPurpose,
    address: &str,
) -> TokenHash {
    try_link(store, customer, purpose, address).await.unwrap()
}

fn trial() -> TrialGrant {
    let entry = EntryId::new(NOON, unique());
    TrialGrant { entry, credits: credits(500), expires_at: None }
}

async fn confirm_at(store: &Store, hash: &TokenHash, now: Timestamp) -> ConfirmationOutcome {
    let (trial, lasting) = (trial(), LastingCredentials::Everything);
    let confirming = EmailConfirmation { hash, trial, lasting, jobs: &[], entry: None, now };
    confirmations::confirm(store, &confirming).await.unwrap()
}

async fn confirm(store: &Store, hash: &TokenHash) -> ConfirmationOutcome {
    confirm_at(store, hash, NOON).await
}

fn granted(new: &NewCustomer, address: &str, amount: i64) -> ConfirmationOutcome {
    let email = email(address);
    ConfirmationOutcome::Confirmed { customer: new.id, email, granted: credits(amount) }
}

async fn state(store: &Store, hash: &TokenHash, now: Timestamp) -> Option<LinkState> {
    mail_links::find(store, hash, now).await.unwrap().map(|link| link.state)
}

async fn grants(store: &Store, customer: CustomerId) -> usize {
    let of = UsageOf { customer, key: None, only_allowed: false };
    let query = LedgerQuery { of, kind: None, before: None, limit: 100, now: NOON };
    ledger_pages::page(store, &query).await.unwrap().unwrap().len()
}

#[tokio::test]
async fn a_registration_enqueues_its_email_or_stores_nothing() {
    let store = testing::store().await;
    let register = async |address: &str| {
        let (new, job) = (new_customer(address), [notice()]);
        let wanted = NewRegistration { customer: &new, trial_limits: &[], jobs: &job };
        registration::register(&store, &wanted).await.unwrap()
    };

    let first = register("ada@example.com").await;
    let second = register("ada@example.com").await;

    assert_eq!(first, RegistrationOutcome::Created { trial: TrialState::Pending });
    assert_eq!(second, RegistrationOutcome::EmailTaken);
    assert_eq!(jobs::count(&store).await.unwrap().waiting, 1);
}

#[tokio::test]
async fn daily_trials_are_limited_by_scope() {
    let store = testing::store().await;
    let limit = |scope: &str, per_day| TrialLimit { scope: scope.to_owned(), per_day };
    let register = async |number: usize, limits: &[TrialLimit], day: i64| {
        let mut new = new_customer(&format!("n{number}@example.com"));
        new.created_at = NOON.plus_seconds(day * 86_400);
        let wanted = NewRegistration { customer: &new, trial_limits: limits, jobs: &[] };
        let RegistrationOutcome::Created { trial } =
            registration::register(&store, &wanted).await.unwrap()
        else {
            panic!("the address is taken");
        };
        let stored = customers::find_by_id(&store, new.id).await.unwrap().unwrap();
        assert_eq!(stored.trial, trial);
        trial == TrialState::Pending
    };
    let both = [limit("network a", 2), limit("domain x", 3)];
    let other = [limit("network b", 2), limit("domain x", 3)];

    assert!(register(1, &both, 0).await && register(2, &both, 0).await);
    assert!(!register(3, &both, 0).await, "the network has used its two");
    assert!(register(4, &other, 0).await);
    assert!(!register(5, &other, 0).await, "the domain has used its three");
    assert!(register(6, &both, 1).await, "a new day");
    assert!(!register(7, &[limit("network c", 0)], 1).await, "no trial at all");
    assert_eq!(registration::delete_trial_counts(&store, NOON.day()).await.unwrap(), 0);
    let tomorrow = NOON.day().plus_days(1);
    assert!(registration::delete_trial_counts(&store, tomorrow).await.unwrap() > 0);
}

#[tokio::test]
async fn a_link_confirms_its_address_and_grants_the_trial_once() {
    let store = testing::store().await;
    let ada = registered(&store, "ada@example.com").await;
    let mailed = link(&store, ada.id, LinkPurpose::ConfirmEmail, "ada@example.com").await;

    for _ in 0..5 {
        assert_eq!(state(&store, &mailed, NOON).await, Some(LinkState::Open));
    }
    assert_eq!(grants(&store, ada.id).await, 0, "checking a link confirms nothing");
    let first = confirm(&store, &mailed).await;
    let second = confirm(&store, &mailed).await;

    assert_eq!(first, granted(&ada, "ada@example.com", 500));
    assert_eq!(second, ConfirmationOutcome::NotOpen(LinkState::Used));
    let stored = customers::find_by_id(&store, ada.id).await.unwrap().unwrap();
    assert_eq!((stored.email_verified_at, stored.trial), (Some(NOON), TrialState::Granted));
    assert_eq!(grants(&store, ada.id).await, 1);
    assert_sound(&store).await;
}

/// 50 concurrent confirmations through five links: one succeeds, and the trial is granted once.
#[tokio::test]
async fn concurrent_confirmations_grant_the_trial_once() {
    let store = testing::store().await;
    let ada = registered(&store, "ada@example.com").await;
    let mut links = Vec::new();
    for _ in 0..5 {
        links.push(link(&store, ada.id, LinkPurpose::ConfirmEmail, "ada@example.com").await);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let (shared, hash) = ((*store).clone(), links[number % 5]);
        tasks.spawn(async move { confirm(&shared, &hash).await });
    }

    let outcomes = tasks.join_all().await;

    let count = |wanted: &ConfirmationOutcome| outcomes.iter().filter(|it| *it == wanted).count();
    assert_eq!(count(&granted(&ada, "ada@example.com", 500)), 1);
    assert_eq!(count(&ConfirmationOutcome::NotOpen(LinkState::Used)), 49);
    assert_eq!(grants(&store, ada.id).await, 1);
    assert_sound(&store).await;
}

#[tokio::test]
async fn links_expire_after_24_hours_and_password_links_after_one() {
    let store = testing::store().await;
    let ada = registered(&store, "ada@example.com").await;
    let mailed = link(&store, ada.id, LinkPurpose::ConfirmEmail, "ada@example.com").await;
    let reset = link(&store, ada.id, LinkPurpose::ResetPassword, "ada@example.com").await;
    let end = NOON.plus_seconds(86_400);

    assert_eq!(state(&store, &mailed, end.plus_micros(-1)).await, Some(LinkState::Open));
    assert_eq!(state(&store, &mailed, end).await, Some(LinkState::Expired));
    let late = confirm_at(&store, &mailed, end).await;
    assert_eq!(late, ConfirmationOutcome::NotOpen(LinkState::Expired));
    let hour = NOON.plus_seconds(3_600);
    assert_eq!(state(&store, &reset, hour.plus_micros(-1)).await, Some(LinkState::Open));
    assert_eq!(state(&store, &reset, hour).await, Some(LinkState::Expired));
    assert_eq!(mail_links::delete_ended(&store, end).await.unwrap(), 1);
    assert_eq!(state(&store, &reset, hour).await, None);
    assert_eq!(grants(&store, ada.id).await, 0);
}

#[tokio::test]
async fn only_usable_links_are_created() {
    let store = testing::store().await;
    let ada = registered(&store, "ada@example.com").await;
    let purposes =
        [LinkPurpose::ConfirmEmail, LinkPurpose::ResetPassword, LinkPurpose::ChangeEmail];
    for purpose in purposes {
        assert_eq!(try_link(&store, ada.id, purpose, "other@example.com").await, None);
    }
    let mailed = link(&store, ada.id, LinkPurpose::ConfirmEmail, "ada@example.com").await;
    confirm(&store, &mailed).await;

    let again = try_link(&store, ada.id, LinkPurpose::ConfirmEmail, "ada@example.com").await;

    assert_eq!(again, None, "it is already confirmed");
    customers::disable(&store, ada.id, NOON).await.unwrap();
    let closed = try_link(&store, ada.id, LinkPurpose::ResetPassword, "ada@example.com").await;
    assert_eq!(closed, None);
}

#[tokio::test]
async fn a_link_works_only_for_its_purpose() {
    let store = testing::store().await;
    let ada = registered(&store, "ada@example.com").await;
    let mailed = link(&store, ada.id, LinkPurpose::ConfirmEmail, "ada@example.com").await;
    let reset = link(&store, ada.id, LinkPurpose::ResetPassword, "ada@example.com").await;
    let password = PasswordHash("$argon2id$new".to_owned());
    let resetting = |hash| PasswordReset {
        hash,
        password: &password,
        trial: trial(),
        jobs: &[],
        entry: None,
        now: NOON,
    };

    assert_eq!(confirm(&store, &reset).await, ConfirmationOutcome::NotFound);
    let wrong = password_resets::reset(&store, &resetting(&mailed)).await.unwrap();

    assert_eq!(wrong, PasswordResetOutcome::NotFound);
    assert_eq!(confirm(&store, &hash()).await, ConfirmationOutcome::NotFound);
    assert_eq!(state(&store, &mailed, NOON).await, Some(LinkState::Open));
    assert_eq!(state(&store, &reset, NOON).await, Some(LinkState::Open));
}

/// One mailbox with many addresses gets one trial, for whichever address is confirmed first.
#[tokio::test]
async fn a_mailbox_has_one_trial_under_all_its_addresses() {
    let store = testing::store().await;
    let mut amounts = Vec::new();
    for address in ["ada@example.com", "ada+2@example.com", "ada+3@example.com"] {
        let new = registered(&store, address).await;
        let mailed = link(&store, new.id, LinkPurpose::ConfirmEmail, address).await;
        let ConfirmationOutcome::Confirmed { granted, .. } = confirm(&store, &mailed).await else {
            panic!("{address} was not confirmed");
        };
        let stored = customers::find_by_id(&store, new.id).await.unwrap().unwrap();
        assert!(stored.email_verified_at.is_some());
        amounts.push((granted, stored.trial));
    }

    let nothing = (credits(0), TrialState::None);
    assert_eq!(amounts, [(credits(500), TrialState::Granted), nothing, nothing]);
    assert_sound(&store).await;
}

#[tokio::test]
async fn an_address_changes_only_when_the_new_one_is_confirmed() {
    let store = testing::store().await;
    let ada = registered(&store, "ada@example.com").await;
    let first = link(&store, ada.id, LinkPurpose::ConfirmEmail, "ada@example.com").await;
    let new = email("countess@example.com");
    let job = [notice()];

    let asked = email_changes::request(&store, ada.id, &new, &job, NOON).await.unwrap();
    let mailed = link(&store, ada.id, LinkPurpose::ChangeEmail, "countess@example.com").await;

    assert_eq!(asked, EmailChange::Requested);
    assert_eq!(jobs::count(&store).await.unwrap().waiting, 1);
    let before = customers::find_by_id(&store, ada.id).await.unwrap().unwrap();
    assert_eq!((before.email, before.email_verified_at), (ada.email.clone(), None));
    assert_eq!(email_changes::find(&store, ada.id).await.unwrap(), Some(new.clone()));
    assert_eq!(confirm(&store, &mailed).await, granted(&ada, "countess@example.com", 500));
    let after = customers::find_by_id(&store, ada.id).await.unwrap().unwrap();
    assert_eq!((after.email, after.email_verified_at), (new, Some(NOON)));
    assert_eq!(email_changes::find(&store, ada.id).await.unwrap(), None);
    assert_eq!(state(&store, &first, NOON).await, Some(LinkState::Outdated));
    let old = confirm(&store, &first).await;
    assert_eq!(old, ConfirmationOutcome::NotOpen(LinkState::Outdated));
    assert_eq!(grants(&store, ada.id).await, 1);
}

#[tokio::test]
async fn a_new_address_request_cancels_the_previous_one() {
    let store = testing::store().await;
    let ada = registered(&store, "ada@example.com").await;
    let request = async |address: &str| {
        let wanted = email(address);
        email_changes::request(&store, ada.id, &wanted, &[], NOON).await.unwrap()
    };
    request("one@example.com").await;
    let one = link(&store, ada.id, LinkPurpose::ChangeEmail, "one@example.com").await;

    assert_eq!(request("two@example.com").await, EmailChange::Requested);
    let two = link(&store, ada.id, LinkPurpose::ChangeEmail, "two@example.com").await;
    assert_eq!(confirm(&store, &one).await, ConfirmationOutcome::NotOpen(LinkState::Used));
    assert_eq!(request("ada@example.com").await, EmailChange::Unchanged);

    assert_eq!(confirm(&store, &two).await, ConfirmationOutcome::NotOpen(LinkState::Used));
    assert_eq!(email_changes::find(&store, ada.id).await.unwrap(), None);
}

#[tokio::test]
async fn another_customers_address_cannot_be_taken() {
    let store = testing::store().await;
    let ada = registered(&store, "ada@example.com").await;
    let wanted = email("bob@example.com");
    let stranger = CustomerId::new(NOON, unique());
    email_changes::request(&store, ada.id, &wanted, &[], NOON).await.unwrap();
    let mailed = link(&store, ada.id, LinkPurpose::ChangeEmail, "bob@example.com").await;
    let bob = registered(&store, "bob@example.com").await;

    let late = confirm(&store, &mailed).await;
    let taken = email_changes::request(&store, ada.id, &wanted, &[], NOON).await.unwrap();
    let nobody = email_changes::request(&store, stranger, &email("c@x.yz"), &[], NOON).await;

    assert_eq!((late, taken), (ConfirmationOutcome::EmailTaken, EmailChange::EmailTaken));
    assert_eq!(nobody.unwrap(), EmailChange::NotFound);
    let owner = customers::find_by_email(&store, &wanted).await.unwrap().unwrap();
    assert_eq!(owner.id, bob.id);
    assert_sound(&store).await;
}

/// 20 concurrent resets with one link: one password is stored, and everything an attacker may have
/// begun is ended.
#[tokio::test]
async fn a_password_reset_works_once_and_ends_pending_changes() {
    let store = testing::store().await;
    let ada = registered(&store, "ada@example.com").await;
    let thief = email("thief@example.com");
    email_changes::request(&store, ada.id, &thief, &[], NOON).await.unwrap();
    let change = link(&store, ada.id, LinkPurpose::ChangeEmail, "thief@example.com").await;
    let mailed = link(&store, ada.id, LinkPurpose::ResetPassword, "ada@example.com").await;
    let other = link(&store, ada.id, LinkPurpose::ResetPassword, "ada@example.com").await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let shared = (*store).clone();
        tasks.spawn(async move {
            let password = PasswordHash(format!("$argon2id${number}"));
            let job = [notice()];
            let resetting = PasswordReset {
                hash: &mailed,
                password: &password,
                trial: trial(),
                jobs: &job,
                entry: None,
                now: NOON,
            };
            let done = password_resets::reset(&shared, &resetting).await.unwrap();
            (done, password)
        });
    }

    let outcomes = tasks.join_all().await;

    let done = PasswordResetOutcome::Done { customer: ada.id, email: ada.email.clone() };
    let won: Vec<_> = outcomes.iter().filter(|(outcome, _)| *outcome == done).collect();
    assert_eq!(won.len(), 1, "{outcomes:?}");
    let stored = customers::find_by_id(&store, ada.id).await.unwrap().unwrap();
    assert_eq!(stored.password_hash, won[0].1);
    assert_eq!(jobs::count(&store).await.unwrap().waiting, 1);
    assert_eq!(state(&store, &other, NOON).await, Some(LinkState::Used));
    assert_eq!(confirm(&store, &change).await, ConfirmationOutcome::NotOpen(LinkState::Used));
    assert_eq!(email_changes::find(&store, ada.id).await.unwrap(), None);
}
