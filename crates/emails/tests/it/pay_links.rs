//! Links to payments: whom they open what for, and until when.

use domain::credits::Credits;
use domain::id::{EntryId, OrderId};
use domain::token::SecretToken;
use domain::top_up::WAIT_S;
use emails::{EmailRequest, pay_links};
use failures::Failure;
use mail::OutgoingMail;
use runtime::Random;
use runtime::sealing::{Keyring, MasterKey};
use store::confirmations::{self, ConfirmationOutcome, EmailConfirmation, TrialGrant};
use store::email_changes::EmailChange;
use store::ended_credentials::LastingCredentials;

use crate::service::{BASE, NOW, TestService, address, link};

const ADA: &str = "ada@example.com";

/// An order and the token of a link to it that works for a minute.
async fn sent(service: &TestService) -> (OrderId, String) {
    let customer = service.customer(ADA, Some(NOW)).await;
    let order = service.charged(customer).await;
    (order, token(service, order, 60))
}

fn token(service: &TestService, order: OrderId, lasts_s: i64) -> String {
    let until = NOW.plus_seconds(lasts_s);
    let url = pay_links::url(&service.emails, order, until, &address(ADA)).unwrap();
    url.strip_prefix("https://api.example.com/console/pay?token=").unwrap().to_owned()
}

async fn is_unknown(service: &TestService, token: &str) -> bool {
    matches!(pay_links::open(&service.emails, token).await, Err(Failure::UnknownLink))
}

/// Follows the link in an email that asks to confirm an address.
async fn confirm(service: &TestService, mail: &OutgoingMail) {
    let start = format!("{BASE}/console/confirm?token=");
    let token = SecretToken::parse(link(mail, &start).strip_prefix(&start).unwrap()).unwrap();
    let trial =
        TrialGrant { entry: EntryId::new(NOW, [8; 10]), credits: Credits::ZERO, expires_at: None };
    let (hash, jobs) = (&token.hash(), &[]);
    let lasting = LastingCredentials::Everything;
    let confirming = EmailConfirmation { hash, trial, lasting, jobs, entry: None, now: NOW };
    let outcome = confirmations::confirm(&service.emails.store, &confirming).await.unwrap();
    assert!(matches!(outcome, ConfirmationOutcome::Confirmed { .. }), "{outcome:?}");
}

#[tokio::test]
async fn the_bank_is_answered_by_a_link_that_is_sent_while_the_charge_waits() {
    let service = TestService::start().await;
    let customer = service.customer(ADA, Some(NOW)).await;
    let letter = EmailRequest::TopUpWaits { customer };
    assert_eq!(service.written(&letter).await, None, "there is no charge");
    let order = service.charged(customer).await;
    assert_eq!(service.written(&letter).await, None, "the bank has not asked");
    service.wait_for_customer(order, &letter).await;

    let mail = service.written(&letter).await.unwrap();

    assert_eq!(mail.to, address(ADA));
    let start = format!("{BASE}/console/pay?token=");
    let token = link(&mail, &start).strip_prefix(&start).unwrap();
    assert_eq!(pay_links::open(&service.emails, token).await.unwrap().id, order);
    for part in ["a payment of 10.50 USD", "until 2026-11-28 12:00 UTC", "/console/billing/topup"] {
        assert!(mail.text.contains(part), "{part}: {}", mail.text);
    }
    service.emails.clock.advance_seconds(WAIT_S);
    let late = pay_links::open(&service.emails, token).await;
    assert!(matches!(late, Err(Failure::LinkExpired)), "{late:?}");
}

#[tokio::test]
async fn a_link_opens_its_order_until_it_expires() {
    let service = TestService::start().await;
    let (order, token) = sent(&service).await;

    service.emails.clock.advance_seconds(59);
    let open = pay_links::open(&service.emails, &token).await;
    service.emails.clock.advance_seconds(1);
    let expired = pay_links::open(&service.emails, &token).await;

    assert_eq!(open.unwrap().id, order);
    assert!(matches!(expired, Err(Failure::LinkExpired)), "{expired:?}");
}

#[tokio::test]
async fn a_link_that_was_changed_opens_nothing() {
    let service = TestService::start().await;
    let (order, good) = sent(&service).await;
    let (claim, signature) = good.rsplit_once('.').unwrap();
    let ends_at_s = NOW.unix_seconds() + 60;
    let other = OrderId::new(NOW, [9; 10]);

    for wrong in [
        format!("{order}.{}.{signature}", ends_at_s + 1),
        format!("{order}.{}.{signature}", i64::MAX),
        format!("{other}.{ends_at_s}.{signature}"),
        format!("{claim}."),
        format!("{claim}.{}", &signature[1..]),
        format!("{claim}.{}", "0".repeat(signature.len())),
        format!("{claim}.{signature}00"),
        token(&service, other, 60),
        claim.to_owned(),
        String::new(),
    ] {
        assert!(is_unknown(&service, &wrong).await, "{wrong}");
    }
    assert!(pay_links::open(&service.emails, &good).await.is_ok());
}

#[tokio::test]
async fn a_link_works_only_while_its_address_is_the_customers() {
    let service = TestService::start().await;
    let customer = service.customer(ADA, Some(NOW)).await;
    let order = service.charged(customer).await;
    let old = token(&service, order, 60);
    let (store, email) = (&service.emails.store, address("new@example.com"));
    let asked = store::email_changes::request(store, customer, &email, &[], NOW).await.unwrap();
    assert_eq!(asked, EmailChange::Requested);
    let mail = service.written(&EmailRequest::ChangeEmail { customer, email }).await.unwrap();
    assert!(pay_links::open(&service.emails, &old).await.is_ok(), "it is not confirmed yet");

    confirm(&service, &mail).await;

    assert!(is_unknown(&service, &old).await);
}

#[tokio::test]
async fn a_link_of_a_closed_or_suspended_customer_opens_nothing() {
    for is_closed in [true, false] {
        let service = TestService::start().await;
        let customer = service.customer(ADA, Some(NOW)).await;
        let order = service.charged(customer).await;
        let token = token(&service, order, 60);
        if is_closed {
            service.close(customer).await;
        } else {
            service.suspend(customer).await;
        }

        assert!(is_unknown(&service, &token).await, "closed: {is_closed}");
    }
}

#[tokio::test]
async fn a_link_outlives_its_key_only_while_the_key_is_kept() {
    let service = TestService::start().await;
    let (order, token) = sent(&service).await;
    let old: Vec<MasterKey> = service
        .emails
        .vault
        .keyring()
        .keys()
        .map(|key| MasterKey::parse(&key.expose()).unwrap())
        .collect();
    let next = || MasterKey::generate("k2", &Random::seeded(2));

    let both = std::iter::once(next()).chain(old).collect();
    service.emails.vault.prefer(Keyring::new(both).unwrap());
    assert_eq!(pay_links::open(&service.emails, &token).await.unwrap().id, order);

    service.emails.vault.prefer(Keyring::new(vec![next()]).unwrap());
    assert!(is_unknown(&service, &token).await);
}
