//! Emails: to whom they are written, and when they are no longer needed.

use domain::id::{CustomerId, JobId};
use domain::job::JobKind;
use domain::mail::LinkPurpose;
use domain::payment::ReversalKind;
use domain::token::SecretToken;
use emails::{CustomerNotice, EmailRequest};
use jobs::JobQueue;
use store::email_changes::EmailChange;
use store::mail_links::{EmailLink, LinkState};

use crate::service::{BASE, NOW, TestService, address, link};

const ADA: &str = "ada@example.com";

fn confirm(email: &str) -> EmailRequest {
    EmailRequest::ConfirmEmail { email: address(email), asked_by: None }
}

fn reset(email: &str) -> EmailRequest {
    EmailRequest::ResetPassword { email: address(email), asked_by: None }
}

fn notice(customer: CustomerId, notice: CustomerNotice) -> EmailRequest {
    EmailRequest::Notice { customer, notice }
}

/// The letters about a subscription and money.
fn about_money(customer: CustomerId) -> [EmailRequest; 4] {
    let currency = || "USD".to_owned();
    [
        EmailRequest::TopUpStopped { customer },
        EmailRequest::AccountsDeactivated { customer, accounts: vec!["ada".to_owned()] },
        EmailRequest::PaymentFailed {
            customer,
            amount_cents: 2_900,
            currency: currency(),
            next_attempt: Some("no time".to_owned()),
        },
        EmailRequest::MoneyReversed {
            customer,
            kind: ReversalKind::Refund,
            is_undone: false,
            amount_cents: 2_900,
            currency: currency(),
            credits: 5,
            balance: 0,
            debt: 0,
            stops_top_up: false,
        },
    ]
}

/// The link that is stored for the token in an email.
async fn stored(service: &TestService, letter: &EmailRequest, page: &str) -> EmailLink {
    let mail = service.written(letter).await.unwrap();
    let start = format!("{BASE}/console/{page}?token=");
    let token = SecretToken::parse(link(&mail, &start).strip_prefix(&start).unwrap()).unwrap();
    let store = &service.emails.store;
    store::mail_links::find(store, &token.hash(), NOW).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_link_works_for_the_customer_the_purpose_and_the_address_of_its_email() {
    let service = TestService::start().await;
    let customer = service.customer(ADA, None).await;
    let wanted = address("new@example.com");
    let store = &service.emails.store;
    let asked = store::email_changes::request(store, customer, &wanted, &[], NOW).await.unwrap();
    assert_eq!(asked, EmailChange::Requested);
    let change = EmailRequest::ChangeEmail { customer, email: wanted.clone() };

    for (letter, page, purpose, email) in [
        (confirm(ADA), "confirm", LinkPurpose::ConfirmEmail, address(ADA)),
        (reset(ADA), "reset", LinkPurpose::ResetPassword, address(ADA)),
        (change, "confirm", LinkPurpose::ChangeEmail, wanted),
    ] {
        let stored = stored(&service, &letter, page).await;

        let expected = EmailLink {
            customer,
            purpose,
            email,
            current_email: address(ADA),
            is_customer_confirmed: false,
            expires_at: NOW.plus_seconds(purpose.lifetime_s()),
            state: LinkState::Open,
        };
        assert_eq!(stored, expected);
    }
}

#[tokio::test]
async fn an_email_goes_to_the_address_of_its_letter_and_is_named_after_its_job() {
    let service = TestService::start().await;
    service.customer(ADA, None).await;

    let mail = service.written(&confirm(ADA)).await.unwrap();
    let again = service.written(&confirm(ADA)).await.unwrap();

    assert_eq!((&mail.to, mail.at), (&address(ADA), NOW));
    assert_eq!(mail.subject, "Confirm your email address");
    // A mail server that gets it again knows it by its id, although its link is another one.
    assert_eq!((&mail.id, &again.id), (&JobId::new(NOW, [7; 10]).to_string(), &mail.id));
    assert_ne!(mail.text, again.text);
    for text in [&mail.text, &mail.html] {
        assert!(!text.contains("Ada"), "chosen at the registration: {text}");
    }
}

#[tokio::test]
async fn a_link_that_could_not_be_used_is_not_sent() {
    let service = TestService::start().await;
    let confirmed = service.customer(ADA, Some(NOW)).await;
    let closed = service.customer("closed@example.com", None).await;
    service.close(closed).await;

    for letter in [
        confirm("nobody@example.com"),
        reset("nobody@example.com"),
        confirm(ADA),
        confirm("closed@example.com"),
        reset("closed@example.com"),
        // Nobody asked for this address, or did so for another one meanwhile.
        EmailRequest::ChangeEmail { customer: confirmed, email: address("new@example.com") },
    ] {
        assert_eq!(service.written(&letter).await, None, "{letter:?}");
    }
    assert!(service.written(&reset(ADA)).await.is_some());
}

#[tokio::test]
async fn a_suspended_customer_still_reads_about_its_money_and_a_closed_one_does_not() {
    let service = TestService::start().await;
    let customer = service.customer(ADA, Some(NOW)).await;
    let nobody = CustomerId::new(NOW, [9; 10]);
    let told = async |to: CustomerId| {
        let mut addresses = Vec::new();
        for letter in about_money(to) {
            addresses.extend(service.written(&letter).await.map(|mail| mail.to));
        }
        addresses
    };

    assert_eq!(told(customer).await, vec![address(ADA); 4]);
    service.suspend(customer).await;
    assert_eq!(told(customer).await, vec![address(ADA); 4]);
    let closed = service.customer("closed@example.com", Some(NOW)).await;
    service.close(closed).await;
    assert_eq!(told(closed).await, []);
    assert_eq!(told(nobody).await, []);
}

#[tokio::test]
async fn nobody_but_an_open_customer_gets_notices() {
    let service = TestService::start().await;
    let [open, suspended, closed] = [
        service.customer(ADA, None).await,
        service.customer("suspended@example.com", None).await,
        service.customer("closed@example.com", None).await,
    ];
    service.suspend(suspended).await;
    service.close(closed).await;

    for (customer, expected) in [
        (open, Some(address(ADA))),
        (suspended, None),
        (closed, None),
        (CustomerId::new(NOW, [9; 10]), None),
    ] {
        let mail = service.written(&notice(customer, CustomerNotice::SubscriptionEnded)).await;

        assert_eq!(mail.map(|mail| mail.to), expected);
    }
}

/// Between the notice and its email the customer may have bought credits.
#[tokio::test]
async fn a_low_balance_is_told_as_it_is_when_the_email_is_written() {
    let service = TestService::start().await;
    let customer = service.customer(ADA, None).await;
    let low = notice(customer, CustomerNotice::LowBalance { threshold: 50 });

    let empty = service.written(&low).await.unwrap();
    service.grant(customer, 49).await;
    let below = service.written(&low).await.unwrap();
    service.grant(customer, 1).await;
    let risen = service.written(&low).await;

    assert!(empty.text.starts_with("Your balance is used up"), "{}", empty.text);
    assert!(below.text.starts_with("Your balance is 49 credits."), "{}", below.text);
    assert_eq!(risen, None);
}

#[tokio::test]
async fn a_time_that_cannot_be_read_is_not_promised() {
    let service = TestService::start().await;
    let customer = service.customer(ADA, None).await;
    let [_, _, failed, _] = about_money(customer);

    let mail = service.written(&failed).await.unwrap();

    assert!(mail.text.contains("We couldn't charge your card 29.00 USD"), "{}", mail.text);
    assert!(mail.text.contains("We won't try again automatically."), "{}", mail.text);
}

#[test]
fn a_letter_waits_as_a_job_that_is_read_as_the_same_letter() {
    let queue = JobQueue::new(runtime::Clock::manual(NOW), runtime::Random::seeded(1));
    let letter = confirm(ADA);

    let job = emails::job(&queue, &letter);

    assert_eq!((job.kind, job.created_at), (JobKind::SendMail, NOW));
    assert_eq!(serde_json::from_str::<EmailRequest>(&job.payload).unwrap(), letter);
}

#[test]
fn no_letter_is_read_whose_address_would_begin_another_header() {
    for wrong in [
        "ada@example.com\r\nBcc: eve@example.com",
        "ada@example.com\n",
        "ada@example.com, eve@example.com",
        "Ada <ada@example.com>",
        "ada\u{e9}@example.com",
        "",
    ] {
        let row = serde_json::json!({"letter": "password_reset", "email": wrong});

        assert!(serde_json::from_value::<EmailRequest>(row).is_err(), "{wrong:?}");
    }
}
