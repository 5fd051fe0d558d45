//! Bodies of events: what is one, and what it says of its object.

use processor_client::objects::{MalformedEvent, PaymentIntent, ProcessorEvent};
use serde_json::{Value, json};

fn parsed(body: &Value) -> Result<ProcessorEvent, MalformedEvent> {
    ProcessorEvent::parse(body.to_string().as_bytes())
}

/// An event about this object.
fn about(object: &Value) -> Value {
    json!({"id": "evt_1", "object": "event", "type": "t", "data": {"object": object}})
}

/// An event with another value in one of its fields.
fn with(field: &str, value: &Value) -> Value {
    let mut event = about(&json!({}));
    event[field] = value.clone();
    event
}

#[test]
fn an_event_says_when_it_happened_and_in_which_version_its_object_is_written() {
    let event = parsed(&json!({
        "id": "evt_1", "object": "event", "type": "payment_intent.succeeded", "created": 7,
        "livemode": true, "api_version": "2020-08-27", "pending_webhooks": 1, "request": null,
        "data": {"object": {"id": "pi_1", "object": "payment_intent", "amount": 99},
            "previous_attributes": {"amount": 98}},
    }))
    .unwrap();

    assert_eq!((event.id.as_str(), event.kind.as_str()), ("evt_1", "payment_intent.succeeded"));
    assert_eq!((event.created, event.livemode), (7, true));
    assert_eq!(event.api_version.as_deref(), Some("2020-08-27"));
    assert_eq!(event.object::<PaymentIntent>().unwrap().amount, 99);
    assert_eq!(event.object_kind(), Some("payment_intent"));
}

#[test]
fn what_an_event_may_lack_is_taken_for_nothing() {
    for body in [about(&json!({})), with("created", &Value::Null), with("livemode", &Value::Null)] {
        let event = parsed(&body).unwrap();

        assert_eq!((event.created, event.livemode), (0, false), "{body}");
        assert_eq!((event.api_version.as_deref(), event.object_id()), (None, None), "{body}");
        assert_eq!((event.customer_id(), event.payment_intent_id()), (None, None), "{body}");
    }
}

#[test]
fn a_body_that_is_no_event_is_refused_with_what_an_event_has() {
    for body in ["", "{", "evt_1", "{\"id\":\"evt_1\",}", "{} {}", "\u{feff}{}"] {
        let refused = ProcessorEvent::parse(body.as_bytes()).unwrap_err().to_string();

        assert_eq!(refused, "the body is not JSON", "{body:?}");
    }
    let not_text = ProcessorEvent::parse(b"{\"id\":\"\xff\"}").unwrap_err().to_string();
    assert_eq!(not_text, "the body is not JSON");
    for body in [
        json!(null),
        json!([]),
        json!("event"),
        json!({}),
        json!({"object": 1}),
        json!({"object": "event"}),
        json!({"object": "event", "id": "evt_1", "type": "t"}),
        json!({"object": "event", "id": "evt_1", "type": "t", "data": {}}),
        json!({"object": "event", "id": "evt_1", "type": "t", "data": []}),
        json!({"object": "event", "id": "evt_1", "data": {"object": {}}}),
        json!({"object": "event", "type": "t", "data": {"object": {}}}),
        with("id", &json!(1)),
        with("type", &json!(["t"])),
        with("created", &json!("7")),
        with("created", &json!(1.5)),
        with("livemode", &json!("true")),
        with("api_version", &json!(2)),
    ] {
        let refused = parsed(&body).unwrap_err().to_string();

        let expected = "the body is not an event: it must be an object with `id`, `object`, `type` and `data.object`";
        assert_eq!(refused, expected, "{body}");
    }
}

#[test]
fn a_thin_event_is_refused_with_its_kind_cut_short() {
    let thin = json!({"id": "evt_1", "object": "v2.core.event", "type": "t"});
    let long = json!({"object": "ü".repeat(100)});

    let refused = |body: &Value| parsed(body).unwrap_err().to_string();

    let text = |kind: &str| format!("the body is an event of the kind `{kind}`, not `event`");
    assert_eq!(refused(&thin), text("v2.core.event"));
    assert_eq!(refused(&long), text(&"ü".repeat(64)));
}

#[test]
fn what_is_written_down_of_an_event_has_1_to_255_characters_and_none_to_control() {
    let object = |field: &str, value: &Value| about(&json!({ field: value }));
    let bad = [String::new(), "x".repeat(256), "a\nb".to_owned(), "\u{0}".to_owned()];
    for text in bad {
        let value = json!(text);
        for (field, body) in [
            ("id", with("id", &value)),
            ("type", with("type", &value)),
            ("api_version", with("api_version", &value)),
            ("data.object.id", object("id", &value)),
            ("data.object.customer", object("customer", &value)),
            ("data.object.customer", object("customer", &json!({"id": value}))),
        ] {
            let refused = parsed(&body).unwrap_err().to_string();

            let expected = format!(
                "`{field}` of the event must have 1 to 255 characters and no control characters"
            );
            assert_eq!(refused, expected, "{text:?}");
        }
    }
    for field in ["id", "type", "api_version"] {
        assert!(parsed(&with(field, &json!("x".repeat(255)))).is_ok(), "{field}");
    }
}

#[test]
fn an_event_names_the_customer_whatever_it_is_about() {
    for (object, customer) in [
        (json!({"id": "cus_1", "object": "customer", "customer": "cus_2"}), Some("cus_1")),
        (json!({"id": "pi_1", "object": "payment_intent", "customer": "cus_1"}), Some("cus_1")),
        (json!({"id": "pi_1", "customer": {"id": "cus_1", "email": "a@b"}}), Some("cus_1")),
        (json!({"id": "pi_1", "customer": null}), None),
        (json!({"id": "pi_1", "customer": 5}), None),
        (json!({"id": "pi_1", "customer": {}}), None),
        (json!({"object": "customer"}), None),
        (json!([]), None),
        (json!(null), None),
        (json!("cus_1"), None),
    ] {
        let event = parsed(&about(&object)).unwrap();

        assert_eq!(event.customer_id(), customer, "{object}");
    }
}

#[test]
fn an_event_names_the_payment_that_its_object_belongs_to() {
    for (object, intent) in [
        (json!({"id": "pi_1", "object": "payment_intent", "payment_intent": "pi_2"}), Some("pi_1")),
        (json!({"id": "ch_1", "object": "charge", "payment_intent": "pi_1"}), Some("pi_1")),
        (json!({"id": "re_1", "payment_intent": {"id": "pi_1"}}), Some("pi_1")),
        (json!({"id": "re_1", "payment_intent": null}), None),
        (json!({"id": "cs_1", "payment_intent": ["pi_1"]}), None),
        (json!(7), None),
    ] {
        let event = parsed(&about(&object)).unwrap();

        assert_eq!(event.payment_intent_id(), intent, "{object}");
    }
}

#[test]
fn an_object_of_another_kind_than_expected_is_an_error_of_its_own() {
    let event = parsed(&about(&json!({"object": "payment_intent"}))).unwrap();

    let read = event.object::<PaymentIntent>().unwrap_err();

    assert_eq!(read.to_string(), "missing field `id`");
}
