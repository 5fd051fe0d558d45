//! Requests to the payment processor: what leaves, when it is sent again, and what its end is
//! called.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use processor_client::objects::PaymentIntent;
use processor_client::{
    API_VERSION, CustomerPresence, IdempotencyKey, ListFilter, NewIntent, ProcessorClient,
    ProcessorError, ProcessorSettings,
};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use scripted_peer::{PlatformStep, ScriptedPlatform};

pub(crate) const SECRET: &str = "sk_test_canary";
pub(crate) const INTENT: &str = r#"{"id":"pi_1","status":"succeeded"}"#;
const SHORT: Duration = Duration::from_millis(50);

pub(crate) fn settings(base_url: &str, retries_max: u32) -> ProcessorSettings {
    ProcessorSettings {
        base_url: base_url.to_owned(),
        secret_key: SECRET.to_owned().into(),
        timeout: Duration::from_secs(20),
        retries_max,
        retry_pause: Duration::from_millis(1),
        ca_file: None,
    }
}

pub(crate) fn processor(base_url: &str, retries_max: u32) -> ProcessorClient {
    ProcessorClient::new(&settings(base_url, retries_max)).unwrap()
}

/// A processor that gives up after [`SHORT`].
fn impatient(base_url: &str) -> ProcessorClient {
    let settings = ProcessorSettings { timeout: SHORT, ..settings(base_url, 0) };
    ProcessorClient::new(&settings).unwrap()
}

/// An answer after which the connection is closed, so that every attempt comes on a connection of
/// its own.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nRequest-Id: req_1\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn ok() -> Vec<u8> {
    answer("200 OK", "", INTENT)
}

fn failure(code: &str) -> String {
    format!(r#"{{"error":{{"type":"invalid_request_error","code":"{code}"}}}}"#)
}

/// Gives these answers one after the other, and the last one to everything after that.
pub(crate) fn answering(answers: Vec<Vec<u8>>) -> ScriptedPlatform {
    ScriptedPlatform::start_each(move |attempt| {
        let answer = answers.get(attempt).or(answers.last()).unwrap().clone();
        vec![PlatformStep::Read, PlatformStep::Write(answer)]
    })
}

fn key() -> IdempotencyKey {
    IdempotencyKey::of("pi", "ord_1").unwrap()
}

pub(crate) async fn charge(processor: &ProcessorClient) -> Result<PaymentIntent, ProcessorError> {
    let new = NewIntent {
        amount_cents: 1_000,
        currency: "usd",
        customer: "cus_1",
        payment_method: "pm_1",
        presence: CustomerPresence::OffSession,
        description: None,
        metadata: &[("order_id", "ord_1")],
    };
    processor.create_intent(&new, &key()).await
}

pub(crate) async fn read(processor: &ProcessorClient) -> Result<PaymentIntent, ProcessorError> {
    processor.retrieve_intent("pi_1").await
}

/// Which of the ends it was.
pub(crate) fn name<T: std::fmt::Debug>(ended: &Result<T, ProcessorError>) -> &'static str {
    match ended {
        Ok(_) => "done",
        Err(ProcessorError::Declined(_)) => "declined",
        Err(ProcessorError::Refused(_)) => "refused",
        Err(ProcessorError::Missing) => "missing",
        Err(ProcessorError::LockTimeout) => "lock timeout",
        Err(ProcessorError::RateLimited(_)) => "rate limited",
        Err(ProcessorError::Unreachable(_)) => "unreachable",
        Err(ProcessorError::Unknown(_)) => "unknown",
    }
}

/// The values of a header in all requests so far.
fn header(wire: &ScriptedPlatform, name: &str) -> Vec<Option<String>> {
    let value = |text: &str| {
        let head = text.split_once("\r\n\r\n").unwrap().0;
        let mut fields = head.lines().skip(1).map(|line| line.split_once(": ").unwrap());
        let field = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
        field.map(|(_, value)| value.to_owned())
    };
    wire.seen().iter().map(|seen| value(&seen.text)).collect()
}

/// Counts the attempts that brought no answer, by the warning that each leaves in the log.
struct WarningCounter(Arc<AtomicUsize>);

impl Subscriber for WarningCounter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with("processor_client")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_request_with_an_effect_names_the_version_its_key_and_its_form() {
    let wire = answering(vec![ok()]);

    assert_eq!(name(&charge(&processor(&wire.url(), 0)).await), "done");

    let sent = wire.only();
    assert!(sent.starts_with("POST /v1/payment_intents HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains("amount=1000&currency=usd&customer=cus_1&"), "{sent}");
    assert!(sent.contains("&metadata%5Border_id%5D=ord_1&"), "{sent}");
    assert!(sent.ends_with("&off_session=true"), "{sent}");
    let only = |name| header(&wire, name).remove(0);
    assert_eq!(API_VERSION, "2026-03-25.dahlia");
    assert_eq!(only("stripe-version").as_deref(), Some(API_VERSION));
    assert_eq!(only("authorization"), Some(format!("Bearer {SECRET}")));
    assert_eq!(only("idempotency-key").as_deref(), Some("pi:ord_1"));
    assert_eq!(only("content-type").as_deref(), Some("application/x-www-form-urlencoded"));
}

#[tokio::test]
async fn a_post_without_parameters_is_a_form_all_the_same() {
    let wire = answering(vec![ok()]);

    let canceled = processor(&wire.url(), 0).cancel_intent("pi_1", &key()).await;

    assert_eq!(name(&canceled), "done");
    let sent = wire.only();
    assert!(sent.starts_with("POST /v1/payment_intents/pi_1/cancel HTTP/1.1\r\n"), "{sent}");
    assert!(sent.ends_with("\r\n\r\n"), "{sent}");
    let form = Some("application/x-www-form-urlencoded".to_owned());
    assert_eq!(header(&wire, "content-type"), [form]);
    assert_eq!(header(&wire, "stripe-version"), [Some(API_VERSION.to_owned())]);
}

#[tokio::test]
async fn a_read_has_its_parameters_in_the_path_and_neither_key_nor_form() {
    let wire = answering(vec![answer("200 OK", "", r#"{"data":[],"has_more":false}"#)]);
    let listing =
        ListFilter { customer: Some("cus_1"), created_from: Some(7), ..ListFilter::default() };

    let listed = processor(&wire.url(), 0).list_intents(&listing).await;

    assert_eq!(name(&listed), "done");
    let sent = wire.only();
    let path = "GET /v1/payment_intents?limit=100&customer=cus_1&created%5Bgte%5D=7 HTTP/1.1\r\n";
    assert!(sent.starts_with(path), "{sent}");
    assert_eq!(header(&wire, "stripe-version"), [Some(API_VERSION.to_owned())]);
    assert_eq!(header(&wire, "content-type"), [None]);
    assert_eq!(header(&wire, "idempotency-key"), [None]);
}

#[tokio::test]
async fn what_is_no_id_names_nothing_and_is_not_sent() {
    let wire = answering(vec![ok()]);
    let processor = processor(&wire.url(), 0);

    for id in ["", "../customers", "pi_1/confirm", "pi_1?expand", "pi 1", "ü"] {
        assert_eq!(name(&processor.retrieve_intent(id).await), "missing", "{id}");
    }

    assert!(wire.seen().is_empty());
}

#[tokio::test]
async fn what_is_sent_again_carries_the_same_key_each_time() {
    let wire = answering(vec![
        answer("409 Conflict", "", &failure("idempotency_key_in_use")),
        answer("500 Internal Server Error", "", ""),
        answer("503 Service Unavailable", "", ""),
        ok(),
    ]);

    assert_eq!(name(&charge(&processor(&wire.url(), 3)).await), "done");

    assert_eq!(header(&wire, "idempotency-key"), vec![Some("pi:ord_1".to_owned()); 4]);
    let bodies: Vec<String> = wire.seen().into_iter().map(|seen| seen.text).collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
}

#[tokio::test]
async fn the_processors_word_on_retries_counts_before_the_status() {
    let (yes, no) = ("Stripe-Should-Retry: true\r\n", "Stripe-Should-Retry: false\r\n");
    let unclear = "Stripe-Should-Retry: perhaps\r\n";
    let cases = [
        ("500 Internal Server Error", "", 2),
        ("503 Service Unavailable", "", 2),
        ("409 Conflict", "", 2),
        ("429 Too Many Requests", "", 1),
        ("400 Bad Request", "", 1),
        ("402 Payment Required", "", 1),
        ("404 Not Found", "", 1),
        ("500 Internal Server Error", no, 1),
        ("409 Conflict", no, 1),
        ("429 Too Many Requests", yes, 2),
        ("400 Bad Request", yes, 2),
        ("500 Internal Server Error", unclear, 2),
        ("400 Bad Request", unclear, 1),
    ];
    for (status, headers, attempts) in cases {
        let wire = answering(vec![answer(status, headers, &failure("x")), ok()]);

        let ended = charge(&processor(&wire.url(), 5)).await;

        assert_eq!(wire.seen().len(), attempts, "{status} {headers}");
        assert_eq!(ended.is_ok(), attempts == 2, "{status} {headers}");
    }
}

#[tokio::test]
async fn attempts_are_bounded_whatever_the_processor_says() {
    let endless = answer("500 Internal Server Error", "Stripe-Should-Retry: true\r\n", "");
    for retries_max in [0, 1, 3] {
        let wire = answering(vec![endless.clone()]);

        let ended = charge(&processor(&wire.url(), retries_max)).await;

        assert_eq!(name(&ended), "unknown");
        assert_eq!(wire.seen().len(), usize::try_from(retries_max).unwrap() + 1);
    }
}

#[tokio::test]
async fn a_refused_connection_is_tried_again_and_nothing_was_done() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let _counting = tracing::subscriber::set_default(WarningCounter(Arc::clone(&count)));

    let ended = charge(&processor(&format!("http://{gone}"), 2)).await;

    assert_eq!(name(&ended), "unreachable");
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_request_is_tried_again_with_the_same_key() {
    let wire = ScriptedPlatform::start_each(|attempt| match attempt {
        0 => vec![PlatformStep::Read],
        1 => vec![
            PlatformStep::Read,
            PlatformStep::Write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{".to_vec()),
        ],
        _ => vec![PlatformStep::Read, PlatformStep::Write(ok())],
    });

    assert_eq!(name(&charge(&processor(&wire.url(), 2)).await), "done");

    assert_eq!(header(&wire, "idempotency-key"), vec![Some("pi:ord_1".to_owned()); 3]);
}

#[tokio::test]
async fn a_post_that_is_not_answered_in_time_may_have_been_done_and_a_read_did_nothing() {
    let wire = ScriptedPlatform::start([PlatformStep::Read, PlatformStep::Hang]);

    let posted = charge(&impatient(&wire.url())).await;
    let read = read(&impatient(&wire.url())).await;

    assert_eq!((name(&posted), name(&read)), ("unknown", "unreachable"));
}

#[tokio::test]
async fn every_answer_has_one_meaning() {
    let cases = [
        ("402 Payment Required", failure("card_declined"), "declined", "declined"),
        ("400 Bad Request", failure("parameter_missing"), "refused", "refused"),
        ("401 Unauthorized", failure("x"), "refused", "refused"),
        ("403 Forbidden", failure("x"), "refused", "refused"),
        ("404 Not Found", failure("resource_missing"), "missing", "missing"),
        ("409 Conflict", failure("x"), "refused", "refused"),
        ("409 Conflict", failure("idempotency_key_in_use"), "unknown", "refused"),
        ("429 Too Many Requests", failure("lock_timeout"), "lock timeout", "lock timeout"),
        ("429 Too Many Requests", failure("rate_limit"), "rate limited", "rate limited"),
        ("500 Internal Server Error", String::new(), "unknown", "unreachable"),
        ("302 Found", String::new(), "unknown", "unreachable"),
        ("400 Bad Request", "<html>".to_owned(), "refused", "refused"),
        ("200 OK", "<html>".to_owned(), "unknown", "unreachable"),
        ("200 OK", INTENT.to_owned(), "done", "done"),
    ];
    for (status, body, of_post, of_read) in cases {
        let wire = answering(vec![answer(status, "", &body)]);
        let processor = processor(&wire.url(), 0);

        let (posted, read) = (charge(&processor).await, read(&processor).await);

        assert_eq!((name(&posted), name(&read)), (of_post, of_read), "{status} {body}");
    }
}

#[tokio::test]
async fn after_an_attempt_that_may_have_been_done_only_its_key_can_say_that_it_was_not() {
    let cases = [
        ("402 Payment Required", "card_declined", "declined"),
        ("400 Bad Request", "x", "refused"),
        ("401 Unauthorized", "x", "unknown"),
        ("403 Forbidden", "x", "unknown"),
        ("409 Conflict", "x", "unknown"),
        ("429 Too Many Requests", "lock_timeout", "unknown"),
        ("429 Too Many Requests", "rate_limit", "unknown"),
    ];
    for (status, code, end) in cases {
        let first = answer("500 Internal Server Error", "", "");
        let wire = answering(vec![first, answer(status, "", &failure(code))]);

        let ended = charge(&processor(&wire.url(), 1)).await;

        assert_eq!((name(&ended), wire.seen().len()), (end, 2), "{status} {code}");
    }
}

#[tokio::test]
async fn a_decline_and_a_refusal_tell_what_they_are_about() {
    let declined = r#"{"error":{"type":"card_error","code":"card_declined",
        "decline_code":"insufficient_funds","message":"No.",
        "payment_intent":{"id":"pi_1","status":"requires_payment_method"}}}"#;
    let refused = r#"{"error":{"type":"idempotency_error","param":"amount","message":"Other."}}"#;
    let wire = answering(vec![
        answer("402 Payment Required", "", declined),
        answer("400 Bad Request", "", refused),
    ]);
    let processor = processor(&wire.url(), 0);

    let Err(ProcessorError::Declined(decline)) = charge(&processor).await else {
        panic!("a 402 is a decline")
    };
    let Err(ProcessorError::Refused(refusal)) = charge(&processor).await else {
        panic!("a 400 is a refusal")
    };

    assert_eq!((decline.reason(), decline.wants_authentication()), ("insufficient_funds", false));
    assert_eq!(decline.payment_intent.unwrap().id, "pi_1");
    assert_eq!(decline.request_id.as_deref(), Some("req_1"));
    assert_eq!((refusal.status.as_u16(), refusal.param.as_deref()), (400, Some("amount")));
    assert!(refusal.is_key_reused());
    assert_eq!(refusal.request_id.as_deref(), Some("req_1"));
}

#[tokio::test]
async fn too_many_requests_say_how_long_to_wait() {
    for (header, expected) in
        [("Retry-After: 7\r\n", Some(7)), ("", None), ("Retry-After: x\r\n", None)]
    {
        let wire = answering(vec![answer("429 Too Many Requests", header, &failure("rate_limit"))]);

        let Err(ProcessorError::RateLimited(limit)) = charge(&processor(&wire.url(), 0)).await
        else {
            panic!("a 429 is a rate limit")
        };

        assert_eq!((limit.retry_after_s, limit.request_id.as_deref()), (expected, Some("req_1")));
    }
}
