//! A client made from settings: what it refuses, whom it trusts, and what it never shows.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use processor_client::objects::PaymentIntent;
use processor_client::{IdempotencyKey, ProcessorClient, ProcessorError, ProcessorSettings};
use scripted_peer::{PlatformStep, TestAuthority, always, ok, secured};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::requests::{INTENT, SECRET, answer, answering, charge, name, read, settings};

fn problems(settings: &ProcessorSettings) -> Vec<String> {
    let problems = ProcessorClient::new(settings).unwrap_err();
    problems.into_iter().map(|problem| format!("{} {}", problem.key, problem.message)).collect()
}

#[test]
fn an_address_is_a_scheme_and_a_host_and_ends_there() {
    let whole =
        "base_url must be http:// or https:// with a host, and without a user or a fragment";
    let path = "base_url must end after the host: paths begin with /v1 there";
    for (url, problem) in [
        ("", whole),
        ("api.example.com", whole),
        ("//api.example.com", whole),
        ("ftp://api.example.com", whole),
        ("https://", whole),
        ("https://user:word@api.example.com", whole),
        ("https://api.example.com:70000", whole),
        ("https://api.example.com:", whole),
        ("https://api.example.com/#v1", whole),
        ("https://api example.com", whole),
        ("https://api.example.com/v1", path),
        ("https://api.example.com/?a", path),
    ] {
        assert_eq!(problems(&settings(url, 0)), [problem], "{url}");
    }
    for url in ["http://api.example.com", "https://api.example.com/", "https://[::1]:8443"] {
        assert!(ProcessorClient::new(&settings(url, 0)).is_ok(), "{url}");
    }
}

#[test]
fn a_secret_key_is_visible_ascii() {
    for secret in ["", " ", "sk test", "sk_test\n", "sk_tëst", "sk_test\u{7f}"] {
        let settings = ProcessorSettings {
            secret_key: secret.to_owned().into(),
            ..settings("https://api.example.com", 0)
        };

        let expected = "secret_key is required with processor.base_url, in visible ASCII";
        assert_eq!(problems(&settings), [expected], "{secret:?}");
    }
}

#[test]
fn every_wrong_setting_is_named_at_once() {
    let wrong = ProcessorSettings {
        base_url: "nowhere".to_owned(),
        secret_key: String::new().into(),
        ca_file: Some(PathBuf::from("/nonexistent/ca.pem")),
        ..settings("", 0)
    };

    let keys: Vec<_> =
        ProcessorClient::new(&wrong).unwrap_err().into_iter().map(|problem| problem.key).collect();

    assert_eq!(keys, ["base_url", "secret_key", "ca_file"]);
}

#[test]
fn an_idempotency_key_has_1_to_255_visible_ascii_characters() {
    let refused = IdempotencyKey::of("pi", "ord 1").unwrap_err().to_string();

    assert_eq!(refused, "an idempotency key has 1 to 255 visible ASCII characters");
    for (kind, id) in [("pi", "ö"), ("p\ni", "1"), ("pi", "\u{7f}"), ("pi", &"x".repeat(253))] {
        assert!(IdempotencyKey::of(kind, id).is_err(), "{kind}:{id}");
    }
    assert!(IdempotencyKey::of("pi", "x".repeat(252)).is_ok());
    assert_eq!(IdempotencyKey::of("pi", 7), IdempotencyKey::of("pi", "7"));
    assert_ne!(IdempotencyKey::of("pi", 7), IdempotencyKey::of("re", 7));
}

fn trusting(url: &str, authority: Option<&TestAuthority>) -> ProcessorClient {
    let ca_file = authority.map(|authority| authority.file.path().to_owned());
    ProcessorClient::new(&ProcessorSettings { ca_file, ..settings(url, 0) }).unwrap()
}

#[tokio::test]
async fn only_a_processor_that_a_known_authority_vouches_for_gets_the_secret() {
    let (ours, other) = (TestAuthority::new(), TestAuthority::new());
    let good = secured(ours.server("127.0.0.1", |_| ()), always(ok(INTENT)));
    let elsewhere = secured(ours.server("other.example", |_| ()), always(ok(INTENT)));
    let url = good.https_url();

    assert_eq!(name(&charge(&trusting(&url, Some(&ours))).await), "done");
    for (address, authority) in
        [(&url, Some(&other)), (&url, None), (&elsewhere.https_url(), Some(&ours))]
    {
        let ended = charge(&trusting(address, authority)).await;

        // Certain: nothing was sent.
        assert_eq!(name(&ended), "unreachable");
    }

    assert_eq!(good.seen().len(), 1);
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_processor_without_tls_is_not_spoken_to_in_the_clear_where_tls_was_asked_for() {
    let plain = scripted_peer::ScriptedPlatform::start([PlatformStep::Read]);

    let ended = charge(&trusting(&plain.https_url(), None)).await;

    assert_eq!(name(&ended), "unreachable");
    assert!(plain.seen().is_empty());
}

#[tokio::test]
async fn requests_follow_each_other_on_one_connection() {
    let wire = scripted_peer::ScriptedPlatform::start(always(ok(INTENT)));
    let processor = ProcessorClient::new(&settings(&wire.url(), 0)).unwrap();
    let clone = processor.clone();

    for each in [&processor, &clone, &processor] {
        assert_eq!(name(&charge(each).await), "done");
    }

    assert_eq!(wire.connections(), [0, 0, 0]);
}

/// Keeps what is logged: every field of every event, as text.
#[derive(Clone, Default)]
struct LogKeeper(Arc<Mutex<String>>);

impl Subscriber for LogKeeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("processor_client")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut FieldWriter(&mut self.0.lock().unwrap()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct FieldWriter<'a>(&'a mut String);

impl Visit for FieldWriter<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        writeln!(self.0, "{}={value:?}", field.name()).unwrap();
    }
}

#[tokio::test]
async fn neither_logs_nor_errors_show_the_secret_the_key_or_what_was_sent() {
    let kept = LogKeeper::default();
    let _keeping = tracing::subscriber::set_default(kept.clone());
    let declined = r#"{"error":{"code":"card_declined","message":"words of the bank"}}"#;
    let wire = answering(vec![
        answer("500 Internal Server Error", "", ""),
        answer("402 Payment Required", "", declined),
    ]);

    let ended = charge(&ProcessorClient::new(&settings(&wire.url(), 1)).unwrap()).await;
    let broken = read(&ProcessorClient::new(&settings("http://127.0.0.1:1", 0)).unwrap()).await;

    let logged = kept.0.lock().unwrap().clone();
    let shown = format!("{} {}", ended.as_ref().unwrap_err(), broken.as_ref().unwrap_err());
    for (text, expected) in [
        (&logged, "path=\"/v1/payment_intents\""),
        (&logged, "processor.request_id=\"req_1\""),
        (&logged, "status=402"),
        (&logged, "attempt=1"),
        (&shown, "the payment was declined: card_declined"),
        (&shown, "the payment processor cannot be reached; nothing was done"),
    ] {
        assert!(text.contains(expected), "{text}");
    }
    for text in [&logged, &shown] {
        for secret in [SECRET, "Bearer", "pi:ord_1", "cus_1", "words of the bank"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[test]
fn what_is_printed_for_developers_has_no_secret() {
    let settings = settings("https://api.example.com", 3);
    let processor = ProcessorClient::new(&settings).unwrap();
    let intent: PaymentIntent =
        serde_json::from_str(r#"{"id":"pi_1","client_secret":"pi_1_secret_canary"}"#).unwrap();

    let printed = format!("{settings:?} {processor:?} {intent:?}");

    assert!(printed.contains("api.example.com") && printed.contains("pi_1"), "{printed}");
    assert!(!printed.contains("canary"), "{printed}");
    assert_eq!(intent.client_secret.unwrap().expose(), "pi_1_secret_canary");
}

#[test]
fn every_end_but_an_unknown_one_is_certain() {
    assert!(ProcessorError::Missing.is_certain());
    assert!(ProcessorError::LockTimeout.is_certain());
    assert_eq!(ProcessorError::Missing.to_string(), "the payment processor knows no such object");
    assert_eq!(
        ProcessorError::LockTimeout.to_string(),
        "another request works on the same object at the payment processor"
    );
}
