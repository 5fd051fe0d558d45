//! Every email: what it says, in both forms, and how it waits in a row of the database.

use askama::Template as _;
use domain::id::KeyId;
use serde_json::{Value, json};
use settings::brand::BrandSection;

use super::*;
use crate::notices::content;
use crate::text::{ConsolePages, ReversedCredits};

const SERVICE: &str = "https://api.example.com";
const LINK: &str = "https://api.example.com/console/billing";

/// The pages of the service, with those of payments at the given address.
fn pages() -> ConsolePages<'static> {
    ConsolePages::new(SERVICE, LINK.to_owned())
}

fn told(notice: &CustomerNotice) -> EmailContent {
    content(notice, &pages(), "7 days")
}

fn at() -> Timestamp {
    Timestamp::from_rfc3339("2026-11-29T12:34:56Z").unwrap()
}

fn email(address: &str) -> Email {
    address.parse().unwrap()
}

fn brand(toml: &str) -> BrandSection {
    *Config::from_toml(&format!("[brand]\n{toml}")).unwrap().brand
}

fn plain(words: &EmailContent, brand: &BrandSection) -> String {
    Plain { words, service: SERVICE, brand }.render().unwrap()
}

fn html(words: &EmailContent, brand: &BrandSection) -> String {
    Html { words, service: SERVICE, brand }.render().unwrap()
}

/// One notice of each kind, and of each form of it.
fn notices() -> Vec<CustomerNotice> {
    let budget = |percent, used| CustomerNotice::KeyBudget {
        key: KeyId::new(at(), [1; 10]),
        name: "nightly".to_owned(),
        percent,
        used,
        budget: 200,
        resets_at: at(),
    };
    let paid = |is_top_up, credits| CustomerNotice::Paid {
        is_top_up,
        amount_cents: 4_900,
        currency: "usd".to_owned(),
        credits,
    };
    let key = |name: &str, is_rotation| CustomerNotice::KeyChanged {
        key: "key_1".to_owned(),
        name: name.to_owned(),
        is_rotation,
        at: at(),
    };
    let export = |is_complete| CustomerNotice::ExportFinished {
        export: "exp_1".to_owned(),
        dataset: "subscribers".to_owned(),
        account: "ada".to_owned(),
        is_complete,
    };
    let card = CustomerNotice::ExpiringCard {
        brand: "visa".to_owned(),
        last4: "0042".to_owned(),
        month: 9,
        year: 2027,
    };
    vec![
        CustomerNotice::LowBalance { threshold: 50 },
        budget(80, 160),
        budget(100, 200),
        CustomerNotice::ExpiringCredits { credits: 7, first_at: at() },
        card,
        paid(true, 1_000),
        paid(false, 0),
        CustomerNotice::SubscriptionEnded,
        key("nightly", false),
        key("", true),
        CustomerNotice::PasswordChanged { at: at() },
        export(true),
        export(false),
    ]
}

/// What every email says.
fn all() -> Vec<EmailContent> {
    let link = || LINK.to_owned();
    let reversed =
        |moved, debt, stops_top_up| ReversedCredits { moved, balance: 3, debt, stops_top_up };
    let money = |kind, is_undone, credits: ReversedCredits| {
        text::money_reversed(kind, is_undone, "10.00 USD", &credits, link())
    };
    let mut all = vec![
        text::confirm_email(link(), 500),
        text::confirm_email(link(), 0),
        text::reset_password(link()),
        text::change_email(link()),
        text::email_change_asked(&email("new@example.com")),
        text::email_changed(&email("new@example.com")),
        text::password_reset(false),
        text::accounts_deactivated(&["ada (platform_alpha)".to_owned(), "bob".to_owned()], link()),
        text::payment_failed("29.00 USD", Some(at()), link()),
        text::payment_failed("29.00 USD", None, link()),
        text::top_up_waits("29.00 USD", &time(at()), link(), &pages().page("billing/topup")),
        text::top_up_stopped(link()),
        money(ReversalKind::Refund, false, reversed(7, 4, true)),
        money(ReversalKind::Refund, true, reversed(-7, 0, false)),
        money(ReversalKind::Dispute, false, reversed(0, 4, false)),
        money(ReversalKind::Dispute, true, reversed(0, 0, false)),
    ];
    all.extend(notices().iter().map(told));
    all
}

#[test]
fn every_email_has_a_subject_of_one_line_and_sentences() {
    for words in all() {
        let subject = words.subject;
        assert!((10..=60).contains(&subject.chars().count()), "{subject}");
        assert!(!subject.contains(char::is_control) && !subject.ends_with('.'), "{subject}");
        assert!(!words.paragraphs.is_empty(), "{subject}");
        for sentence in words.paragraphs.iter().map(String::as_str).chain([&*words.otherwise]) {
            assert!(sentence.ends_with('.'), "{subject}: {sentence}");
            assert!(!sentence.contains(['\n', '\t', '{', '}']), "{subject}: {sentence}");
            assert!(!sentence.contains("  "), "{subject}: {sentence}");
        }
    }
}

#[test]
fn every_email_has_the_same_words_in_both_forms() {
    let brand = brand("");
    for words in all() {
        let (plain, html) = (plain(&words, &brand), html(&words, &brand));
        // What askama escapes in HTML, as text again.
        let shown = html
            .replace("&#38;", "&")
            .replace("&#39;", "'")
            .replace("&#34;", "\"")
            .replace("&#60;", "<")
            .replace("&#62;", ">");
        let said = words.paragraphs.iter().map(String::as_str).chain([&*words.otherwise]);
        for sentence in said {
            assert!(plain.lines().any(|line| line == sentence), "{sentence}: {plain}");
            assert!(shown.contains(sentence), "{sentence}: {shown}");
        }
        assert!(shown.contains(&format!("<title>{}</title>", words.subject)), "{shown}");
        for end in [
            "creator-gateway, https://api.example.com",
            "This is an automated email. Replies are not read.",
        ] {
            assert!(plain.contains(end) && shown.contains(end), "{end}: {plain}");
        }
    }
}

#[test]
fn the_only_address_in_an_email_is_that_of_the_service() {
    let brand = brand("");
    for words in all() {
        let (plain, html) = (plain(&words, &brand), html(&words, &brand));
        for text in [&plain, &html] {
            for (at, _) in text.match_indices("://") {
                assert!(text[..at].ends_with("https"), "{text}");
                assert!(text[at..].starts_with("://api.example.com"), "{text}");
            }
            assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
        }
        match &words.action {
            Some(action) => {
                assert!(
                    plain.contains(&format!("\n{}:\n\n{}\n\n", action.label, action.link)),
                    "{plain}"
                );
                assert_eq!(html.matches("<a href=").count(), 1, "{html}");
            }
            None => assert!(!html.contains("<a href="), "{html}"),
        }
    }
}

#[test]
fn an_email_ends_with_who_operates_the_service_and_where_help_is() {
    let words = text::password_reset(false);
    let whole =
        brand("name = \"Acme\"\noperator = \"Acme Ltd\"\nsupport_email = \"help@acme.example\"");

    let named = plain(&words, &whole);
    let bare = plain(&words, &brand("name = \"Acme\""));

    let expected = "\n\nAcme, https://api.example.com\nOperated by Acme Ltd\n\
        Questions? Write to help@acme.example.\nThis is an automated email. Replies are not read.";
    assert!(named.ends_with(expected), "{named}");
    let end =
        "\n\nAcme, https://api.example.com\nThis is an automated email. Replies are not read.";
    assert!(bare.ends_with(end), "{bare}");
}

#[test]
fn what_customers_chose_cannot_become_markup() {
    let evil = "\"><script>x</script>&amp;'";
    let words = [
        text::accounts_deactivated(&[evil.to_owned()], LINK.to_owned()),
        told(&CustomerNotice::KeyChanged {
            key: "key_1".to_owned(),
            name: evil.to_owned(),
            is_rotation: false,
            at: at(),
        }),
        told(&CustomerNotice::ExportFinished {
            export: evil.to_owned(),
            dataset: evil.to_owned(),
            account: evil.to_owned(),
            is_complete: true,
        }),
    ];
    for each in words {
        let html = html(&each, &brand("name = '<b>'\noperator = '<i>'"));

        for markup in ["<script>", "<b>", "<i>", "&amp;"] {
            assert!(!html.contains(markup), "{markup}: {html}");
        }
        assert!(html.contains("&#38;amp;"), "{html}");
    }
}

#[test]
fn each_notice_says_what_happened_in_numbers_and_names() {
    let said: Vec<String> = notices()
        .iter()
        .map(|notice| {
            let words = told(notice);
            format!("{} | {}", words.subject, words.paragraphs.join(" "))
        })
        .collect();
    let key = KeyId::new(at(), [1; 10]);
    let expected = [
        "Your balance is low | Your balance is used up, and calls are refused.",
        &format!(
            "A key has used most of its monthly budget | The key \u{201c}nightly\u{201d} ({key}) has used 160 of its 200 credits"
        ),
        &format!(
            "The monthly budget of a key is used up | The key \u{201c}nightly\u{201d} ({key}) has used 200 of its 200 credits \
             for this month. Calls with this key are refused until 2026-11-29 12:34 UTC, or until you raise its budget."
        ),
        "Some of your credits expire soon | 7 of your credits expire soon, the first of them on 2026-11-29 12:34 UTC.",
        "Your card expires soon | Your saved card (visa 0042) expires at the end of 2027-09.",
        "Automatic top-up bought credits | Your balance was low, so automatic top-up charged 49.00 USD to your card. \
         1000 credits were added",
        "A payment for your subscription | We charged 49.00 USD for your subscription. Your invoices are at",
        "Your subscription has ended | Your subscription has ended, and you won't be charged for it again.",
        "An API key was created | The API key \u{201c}nightly\u{201d} (key_1) was created on 2026-11-29 12:34 UTC.",
        "An API key got a new secret | The API key key_1 got a new secret on 2026-11-29 12:34 UTC.",
        "Your password was changed | The password of your account was changed on 2026-11-29 12:34 UTC.",
        "Your export is ready | The export exp_1 (subscribers of ada) has finished. Download the file from its page (or with \
         GET /v1/exports/exp_1). It is kept for 7 days.",
        "Your export failed | The export exp_1 (subscribers of ada) has finished. You were not charged for it.",
    ];
    assert_eq!(said.len(), expected.len());
    for (one, start) in said.iter().zip(expected) {
        assert!(one.starts_with(start), "{one}\n{start}");
    }
}

#[test]
fn a_balance_that_is_not_used_up_is_told_in_credits() {
    let words = notices::low_balance(7, 50, &pages());

    assert_eq!(
        words.paragraphs,
        [
            "Your balance is 7 credits. When it is used up, calls are refused.",
            "We send this email once when the balance falls below 50 credits.",
        ]
    );
}

#[test]
fn every_notice_but_those_about_the_password_says_how_to_switch_it_off_or_what_to_do() {
    for notice in notices() {
        let words = told(&notice);
        let is_switch = words.otherwise.contains("PATCH /v1/notices");
        let tells_otherwise = matches!(
            notice.kind(),
            domain::notice::NoticeKind::SubscriptionEnd
                | domain::notice::NoticeKind::KeyChanges
                | domain::notice::NoticeKind::Password
        );
        assert_eq!(is_switch, !tells_otherwise, "{notice:?}");
    }
}

#[test]
fn an_amount_has_two_decimals_whatever_it_is() {
    for (cents, expected) in [
        (0, "0.00 USD"),
        (5, "0.05 USD"),
        (100, "1.00 USD"),
        (99_999_999, "999999.99 USD"),
        (-1, "0.00 USD"),
        (i64::MIN, "0.00 USD"),
        (i64::MAX, "92233720368547758.07 USD"),
    ] {
        assert_eq!(amount(cents, "USD"), expected);
    }
}

fn row(json: Value) -> EmailRequest {
    serde_json::from_value(json).unwrap()
}

/// Rows wait in databases while versions change: what an earlier version wrote is read, and what
/// this one writes, earlier ones read.
#[test]
fn the_form_of_a_row_never_changes() {
    let customer = CustomerId::new(at(), [2; 10]);
    for json in [
        json!({"letter": "confirm_email", "email": "a@b.example"}),
        json!({"letter": "confirm_email", "email": "a@b.example", "asked_by": "192.0.2.0/24"}),
        json!({"letter": "reset_password", "email": "a@b.example"}),
        json!({"letter": "change_email", "customer": customer, "email": "a@b.example"}),
        json!({"letter": "email_change_asked", "email": "a@b.example", "wanted": "c@d.example"}),
        json!({"letter": "email_changed", "email": "a@b.example", "current": "c@d.example"}),
        json!({"letter": "top_up_waits", "customer": customer}),
        json!({"letter": "top_up_stopped", "customer": customer}),
        json!({"letter": "password_reset", "email": "a@b.example"}),
        json!({"letter": "password_reset", "email": "a@b.example", "keys_revoked": true}),
        json!({"letter": "accounts_deactivated", "customer": customer, "accounts": ["ada"]}),
        json!({"letter": "money_reversed", "customer": customer, "kind": "dispute", "is_undone": true,
            "amount_cents": 5, "currency": "USD", "credits": -2, "balance": 1, "debt": 0,
            "stops_top_up": true}),
        json!({"letter": "payment_failed", "customer": customer, "amount_cents": 5, "currency": "USD",
            "next_attempt": null}),
        json!({"letter": "notice", "customer": customer,
            "notice": {"notice": "low_balance", "threshold": 50}}),
        json!({"letter": "notice", "customer": customer, "notice": {"notice": "subscription_ended"}}),
        json!({"letter": "notice", "customer": customer, "notice": {"notice": "expiring_card",
            "brand": "visa", "last4": "0042", "month": 9, "year": 2027}}),
        json!({"letter": "notice", "customer": customer, "notice": {"notice": "paid",
            "is_top_up": true, "amount_cents": 5, "currency": "usd", "credits": 7}}),
        json!({"letter": "notice", "customer": customer, "notice": {"notice": "export_finished",
            "export": "exp_1", "dataset": "chats", "account": "ada", "is_complete": false}}),
    ] {
        let read = row(json.clone());

        assert_eq!(serde_json::to_value(&read).unwrap(), json);
    }
    for notice in notices() {
        let request = EmailRequest::Notice { customer, notice };

        assert_eq!(row(serde_json::to_value(&request).unwrap()), request);
    }
}

#[test]
fn a_row_that_lacks_what_came_later_is_read_without_it() {
    let customer = CustomerId::new(at(), [2; 10]);
    let read = row(json!({"letter": "money_reversed", "customer": customer, "kind": "refund",
        "is_undone": false, "amount_cents": 5, "currency": "USD", "credits": 2, "balance": 1, "debt": 0}));

    let EmailRequest::MoneyReversed { kind, stops_top_up, .. } = read else { panic!("{read:?}") };
    assert_eq!((kind, stops_top_up), (ReversalKind::Refund, false));
}
