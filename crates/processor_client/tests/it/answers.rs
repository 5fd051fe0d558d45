//! A processor that answers wrongly, and what each wrong answer is taken for.

use std::error::Error as _;

use processor_client::{IdempotencyKey, ProcessorError};
use scripted_peer::{PlatformStep, ScriptedPlatform};

use crate::requests::{INTENT, answer, answering, charge, name, processor, read};

/// The longest answer that is read.
const BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// The ends of a payment and of a read that are answered with these bytes.
async fn ends(bytes: Vec<u8>) -> (&'static str, &'static str) {
    let wire = ScriptedPlatform::start([PlatformStep::Read, PlatformStep::Write(bytes)]);
    // A client for each: the connection of the other may be closed already.
    let (one, other) = (processor(&wire.url(), 0), processor(&wire.url(), 0));
    (name(&charge(&one).await), name(&read(&other).await))
}

const UNCLEAR: (&str, &str) = ("unknown", "unreachable");
const DONE: (&str, &str) = ("done", "done");

#[tokio::test]
async fn what_is_no_http_tells_nothing() {
    for bytes in [
        "",
        "SSH-2.0-peer\r\n",
        "HTTP/1.1 2OO OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 30\r\nContent-Length: 31\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    ] {
        assert_eq!(ends(bytes.into()).await, UNCLEAR, "{bytes}");
    }
}

#[tokio::test]
async fn an_answer_may_come_in_any_form_of_http() {
    let (first, rest) = INTENT.split_at(9);
    let length = INTENT.len();
    for bytes in [
        format!(
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{INTENT}"
        ),
        format!(
            "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n",
            first.len(),
            rest.len()
        ),
        format!("HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n{INTENT}"),
        format!(
            "HTTP/1.1 200\r\ncontent-length:{length}\r\ncontent-type: text/html\r\n\r\n{INTENT}"
        ),
    ] {
        assert_eq!(ends(bytes.clone().into()).await, DONE, "{bytes}");
    }
}

#[tokio::test]
async fn a_success_without_the_object_tells_nothing() {
    for body in [
        "",
        "null",
        "[]",
        "{}",
        "\"pi_1\"",
        r#"{"object":"payment_intent"}"#,
        r#"{"id":null}"#,
        r#"{"id":"pi_1","amount":"1000"}"#,
        r#"{"id":"pi_1"} trailing"#,
        r#"{"error":{"code":"card_declined"}}"#,
    ] {
        assert_eq!(ends(answer("200 OK", "", body)).await, UNCLEAR, "{body}");
    }
    let nothing = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
    assert_eq!(ends(nothing).await, UNCLEAR);
}

#[tokio::test]
async fn an_answer_of_eight_mebibytes_is_read_and_a_longer_one_is_not() {
    let padded = |length: usize| format!("{INTENT}{}", " ".repeat(length - INTENT.len()));

    let longest = ends(answer("200 OK", "", &padded(BYTES_MAX))).await;
    let longer = ends(answer("200 OK", "", &padded(BYTES_MAX + 1))).await;
    let endless = [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec(),
        padded(BYTES_MAX + 1).into_bytes(),
    ];
    let endless = ends(endless.concat()).await;

    assert_eq!((longest, longer, endless), (DONE, UNCLEAR, UNCLEAR));
}

#[tokio::test]
async fn what_went_wrong_is_told_below_what_it_means() {
    for (bytes, expected) in [
        (answer("500 Internal Server Error", "", "{}"), "it answered 500"),
        (answer("302 Found", "Location: /elsewhere\r\n", ""), "it answered 302"),
        (
            answer("200 OK", "", "{}"),
            "its answer has no shape that is known: missing field `id` at line 1 column 2",
        ),
    ] {
        let wire = answering(vec![bytes]);

        let ended = charge(&processor(&wire.url(), 0)).await.unwrap_err();

        let text = "the payment processor did not say whether the request took effect";
        assert_eq!(ended.to_string(), text);
        assert!(!ended.is_certain());
        assert_eq!(ended.source().unwrap().to_string(), expected);
        let ProcessorError::Unknown(trouble) = ended else { panic!("{expected}") };
        assert_eq!(trouble.request_id.as_deref(), Some("req_1"));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = answering(vec![answer("200 OK", "", INTENT)]);
    for status in ["301 Moved Permanently", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let location = format!("Location: {}/\r\n", target.url());
        let wire = answering(vec![answer(status, &location, "")]);

        let ended = charge(&processor(&wire.url(), 0)).await;

        assert_eq!(name(&ended), "unknown", "{status}");
    }
    assert!(target.seen().is_empty());
}

#[tokio::test]
async fn a_decline_is_told_by_the_most_that_the_bank_says() {
    for (error, reason, wants_authentication) in [
        ("{}", "generic_decline", false),
        (r#"{"code":"card_declined"}"#, "card_declined", false),
        (r#"{"code":"card_declined","decline_code":"lost_card"}"#, "lost_card", false),
        (r#"{"code":"authentication_required"}"#, "authentication_required", true),
        (
            r#"{"code":"card_declined","decline_code":"authentication_required"}"#,
            "authentication_required",
            true,
        ),
        (r#"{"code":"authentication_required","decline_code":"x"}"#, "x", true),
        (
            r#"{"code":"subscription_payment_intent_requires_action"}"#,
            "subscription_payment_intent_requires_action",
            true,
        ),
    ] {
        let body = format!(r#"{{"error":{error}}}"#);
        let wire = answering(vec![answer("402 Payment Required", "", &body)]);

        let ended = charge(&processor(&wire.url(), 0)).await.unwrap_err();

        assert_eq!(ended.to_string(), format!("the payment was declined: {reason}"));
        let ProcessorError::Declined(decline) = ended else { panic!("{error}") };
        assert_eq!(decline.wants_authentication(), wants_authentication, "{error}");
    }
}

#[tokio::test]
async fn one_field_that_cannot_be_read_does_not_hide_why_a_payment_was_declined() {
    for field in [
        r#""payment_intent":{"status":"requires_payment_method"}"#,
        r#""payment_intent":"pi_1""#,
        r#""payment_method":{"id":7}"#,
        r#""message":["words"]"#,
        r#""param":{}"#,
    ] {
        let body = format!(
            r#"{{"error":{{{field},"code":"authentication_required","type":"card_error"}}}}"#
        );
        let wire = answering(vec![answer("402 Payment Required", "", &body)]);

        let ended = charge(&processor(&wire.url(), 0)).await;

        let Err(ProcessorError::Declined(decline)) = ended else { panic!("{field}: {ended:?}") };
        assert!(decline.wants_authentication(), "{field}");
    }
}

#[tokio::test]
async fn a_refusal_is_told_by_its_status_and_what_the_processor_calls_it() {
    for (body, expected) in [
        ("", "status 400, type -, code -, parameter -"),
        ("[]", "status 400, type -, code -, parameter -"),
        (r#"{"error":null}"#, "status 400, type -, code -, parameter -"),
        (
            r#"{"error":{"code":null,"param":"amount"}}"#,
            "status 400, type -, code -, parameter amount",
        ),
        (
            r#"{"error":{"type":"invalid_request_error","code":"parameter_missing","message":"sk"}}"#,
            "status 400, type invalid_request_error, code parameter_missing, parameter -",
        ),
    ] {
        let wire = answering(vec![answer("400 Bad Request", "", body)]);

        let ended = charge(&processor(&wire.url(), 0)).await.unwrap_err();

        let expected = format!("the payment processor refused the request: {expected}");
        assert_eq!(ended.to_string(), expected, "{body}");
    }
}

#[tokio::test]
async fn a_pause_is_asked_for_in_whole_seconds() {
    for (value, expected) in [
        ("0", Some(0)),
        ("120", Some(120)),
        ("-1", None),
        ("1.5", None),
        ("99999999999999999999", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("\u{fc}", None),
    ] {
        let header = format!("Retry-After: {value}\r\n");
        let wire = answering(vec![answer("429 Too Many Requests", &header, "{}")]);

        let ended = charge(&processor(&wire.url(), 0)).await;

        let Err(ProcessorError::RateLimited(limit)) = ended else { panic!("{value}: {ended:?}") };
        assert_eq!(limit.retry_after_s, expected, "{value}");
    }
}

#[tokio::test]
async fn a_deletion_that_may_have_happened_is_not_called_undone() {
    let one = r#"{"id":"cus_1","deleted":true}"#;
    for (answers, expected) in [
        (vec![answer("200 OK", "", one)], "done"),
        (vec![answer("500 Internal Server Error", "", "")], "unknown"),
        (vec![answer("200 OK", "", "")], "unknown"),
        // Sent again after an answer that was lost: it is gone.
        (vec![Vec::new(), answer("404 Not Found", "", "{}")], "missing"),
        (vec![Vec::new(), answer("429 Too Many Requests", "", "{}")], "unknown"),
        (vec![Vec::new(), answer("200 OK", "", one)], "done"),
    ] {
        let wire = answering(answers.clone());

        let ended = processor(&wire.url(), 1).delete_customer("cus_1").await;

        assert_eq!(name(&ended), expected, "{answers:?}");
        assert!(wire.seen().iter().all(|seen| seen.text.starts_with("DELETE /v1/customers/cus_1")));
    }
}

#[tokio::test]
async fn an_id_of_255_characters_is_asked_for_and_a_longer_one_is_not() {
    let wire = answering(vec![answer("200 OK", "", INTENT)]);
    let processor = processor(&wire.url(), 0);
    let key = IdempotencyKey::of("pi", "ord_1").unwrap();

    let longest = processor.retrieve_intent(&"x".repeat(255)).await;
    let longer = processor.retrieve_intent(&"x".repeat(256)).await;
    let changed = processor.cancel_intent("pi_1/../pi_2", &key).await;
    let deleted = processor.cancel_subscription("..").await;

    assert_eq!((name(&longest), name(&longer)), ("done", "missing"));
    assert_eq!((name(&changed), name(&deleted)), ("missing", "missing"));
    assert_eq!(wire.seen().len(), 1);
}
