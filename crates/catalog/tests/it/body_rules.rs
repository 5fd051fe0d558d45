//! The rules for bodies that an operator writes into a file, as a call meets them.

use catalog::Route;
use domain::field_error::FieldErrorKind;
use serde_json::{Value, json};

use crate::platform_file::{problem, read, route};

fn ruled(rules: &str) -> Route {
    read(&route("POST", "a", &format!("body_rules = [{rules}]"))).routes()[0].clone()
}

/// Where the problem of a body is, and what is said of it.
fn told(route: &Route, body: &Value) -> Option<(String, String)> {
    let problem = route.check_body(body).err()?;
    Some((problem.location.join("."), problem.message))
}

const PRICE: &str =
    r#"{ kind = "zero_or_at_least", field = "price", minimum = 300, unit = "cents" }"#;
const AMOUNT: &str = r#"{ kind = "at_least", field = "amount", minimum = -5, unit = "mills" }"#;
const FLAG: &str =
    r#"{ kind = "flag_requires", list = "posts", field = "bits", flag = 4, requires = "of.tier" }"#;

#[test]
fn the_first_rule_that_a_body_breaks_is_told_in_the_order_of_the_file() {
    let hidden = r#"{ kind = "absent_anywhere", field = "net" }"#;
    let route = ruled(&format!("{AMOUNT}, {hidden}, {PRICE}"));

    let body = json!({"price": 1, "deep": [[{"a.b": {"net": null}}]], "amount": -6});
    let without = json!({"price": 1, "deep": [[{"a.b": {"net": null}}]], "amount": -5});

    let text = |place: &str, message: &str| Some((place.to_owned(), message.to_owned()));
    assert_eq!(told(&route, &body), text("body.amount", "amount must be at least -5 mills"));
    assert_eq!(
        told(&route, &without),
        text("body.deep.0.0.a.b.net", "net is read-only: leave it out")
    );
    assert_eq!(
        told(&route, &json!({"price": 1})),
        text("body.price", "price must be 0, or a whole number of at least 300 cents")
    );
    assert_eq!(told(&route, &json!({"price": 300, "amount": "x"})), None);
}

#[test]
fn a_route_without_rules_takes_any_body() {
    let route = ruled("");

    assert!(!route.has_body_rules());
    for body in [json!(null), json!([]), json!("text"), json!({"price": -1})] {
        assert_eq!(told(&route, &body), None, "{body}");
    }
}

#[test]
fn a_whole_number_is_one_however_it_is_written() {
    let route = ruled(PRICE);
    for good in [
        json!(0),
        json!(0.0),
        json!(-0.0),
        json!(300.0),
        json!(3e2),
        json!(" 300 "),
        json!("0"),
        json!(i64::MAX),
        json!(null),
    ] {
        assert_eq!(told(&route, &json!({"price": good})), None, "{good}");
    }
    for bad in [
        json!(299.0),
        json!(300.5),
        json!(-300),
        json!("٣٠٠"),
        json!("3e2"),
        json!(""),
        json!(true),
        json!([300]),
        json!({"value": 300}),
    ] {
        let problem = route.check_body(&json!({"price": bad})).unwrap_err();
        assert_eq!(problem.kind, FieldErrorKind::OutOfRange, "{bad}");
    }
}

#[test]
fn a_minimum_judges_numbers_alone_and_only_at_the_top_of_the_body() {
    let route = ruled(AMOUNT);
    for bad in [json!(-6), json!(-5.000_001), json!("-6"), json!(" -1e9 "), json!(i64::MIN)] {
        assert!(told(&route, &json!({"amount": bad})).is_some(), "{bad}");
    }
    for left in [json!(-5), json!(-4.9), json!("low"), json!(null), json!([-6]), json!(u64::MAX)] {
        assert_eq!(told(&route, &json!({"amount": left})), None, "{left}");
    }
    assert_eq!(told(&route, &json!({"inner": {"amount": -6}})), None);
    assert_eq!(told(&route, &json!([{"amount": -6}])), None);
}

#[test]
fn a_flag_asks_for_its_field_in_every_element_that_has_it() {
    let route = ruled(FLAG);
    let element =
        |bits: Value, of: Value| json!({"posts": [{"bits": 0}, {"bits": bits, "of": of}]});

    for bits in [json!(4), json!(12), json!("5"), json!(9_007_199_254_740_996_u64)] {
        let found = told(&route, &element(bits.clone(), json!({"tier": "  "})));
        let message = "of.tier is required where bits has 4 set";
        assert_eq!(found, Some(("body.posts.1.of.tier".to_owned(), message.to_owned())), "{bits}");
    }
    for (bits, of) in [
        (json!(4), json!({"tier": 0})),
        (json!(4), json!({"tier": false})),
        (json!(4), json!("a text may be the object")),
        (json!(3), json!(null)),
        (json!(4.5), json!(null)),
        (json!(-4), json!(null)),
        (json!(true), json!(null)),
    ] {
        assert_eq!(told(&route, &element(bits.clone(), of.clone())), None, "{bits} {of}");
    }
}

#[test]
fn a_rule_that_is_not_whole_is_refused_with_what_it_lacks() {
    for (rule, expected) in [
        (r#"{ kind = "at_least", field = "a", minimum = 1 }"#, "missing field `unit`"),
        (r#"{ kind = "absent_anywhere" }"#, "missing field `field`"),
        (r#"{ field = "a" }"#, "missing field `kind`"),
        (r#"{ kind = "at_most", field = "a" }"#, "unknown variant `at_most`"),
        (&FLAG.replace("flag = 4", "flag = -1"), "expected u64"),
        (&PRICE.replace("300", "300.5"), "expected i64"),
    ] {
        let told = problem(&route("POST", "a", &format!("body_rules = [{rule}]")));

        assert!(told.contains(expected), "{rule}: {told}");
    }
}
