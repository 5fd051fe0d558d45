//! Texts that people choose: what is accepted has one form, and what is refused could be mistaken
//! for something else.

use domain::account::{CREATOR_ID_BYTES_MAX, CreatorId, InvalidCreatorId, RESERVED_IDS};
use domain::call_tag::{CallTag, TAG_BYTES_MAX};
use domain::customer::{CustomerRef, Email, PASSWORD_CHARS, password_length_fits};
use domain::hosts::is_loopback_host;
use domain::id::CustomerId;
use domain::invoice::InvoiceId;
use domain::staff::OperatorName;
use domain::time::Timestamp;
use domain::{common_passwords, platform};
use proptest::prelude::*;

proptest! {
    #[test]
    fn an_accepted_address_is_its_own_canonical_form(text in "[!-~]{1,12}@[a-zA-Z0-9.-]{1,14}") {
        if let Ok(email) = text.parse::<Email>() {
            let canonical = email.as_str();
            prop_assert_eq!(canonical, text.to_lowercase());
            prop_assert_eq!(canonical.parse(), Ok(email.clone()));
            prop_assert_eq!(canonical.matches('@').count(), 1, "{}", canonical);
            let end = format!("@{}", email.domain());
            prop_assert!(canonical.ends_with(&end));
            prop_assert!(email.domain().contains('.'));
            prop_assert_eq!(serde_json::to_string(&email).unwrap(), format!("{canonical:?}"));
        }
    }

    /// Nothing that ends a line, begins a second address or opens a comment reaches an email's
    /// head.
    #[test]
    fn no_address_carries_anything_into_the_head_of_an_email(
        text in any::<String>(), mark in "[\\x00-\\x20\\x7f-\\xff\"(),:;<>\\[\\]\\\\]", place in 0_usize..8,
    ) {
        prop_assert!(text.parse::<Email>().is_err() || text.bytes().all(|byte| byte.is_ascii_graphic()));
        let mut hostile = "ada@example.com".to_owned();
        hostile.insert_str(place, &mark);
        prop_assert!(hostile.parse::<Email>().is_err(), "{:?}", hostile);
    }

    #[test]
    fn a_tag_added_to_an_address_keeps_its_mailbox(local in "[a-z]{1,9}", tag in "[a-z+]{0,9}") {
        let plain: Email = format!("{local}@example.com").parse().unwrap();
        let tagged: Email = format!("{local}+{tag}@example.com").parse().unwrap();
        let other: Email = format!("{local}@example.org").parse().unwrap();

        prop_assert_eq!(plain.mailbox_hash(), tagged.mailbox_hash());
        prop_assert_ne!(plain.mailbox_hash(), other.mailbox_hash());
    }

    #[test]
    fn an_id_of_an_account_needs_no_escape_in_a_path(text in any::<String>()) {
        if let Ok(id) = text.parse::<CreatorId>() {
            prop_assert_eq!(id.as_str(), &text);
            prop_assert_eq!(id.to_string(), text.clone());
            prop_assert!(text.len() <= CREATOR_ID_BYTES_MAX && !text.is_empty());
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)));
        }
    }

    #[test]
    fn every_plain_word_that_is_not_reserved_is_an_id(text in "[A-Za-z0-9_.-]{1,64}") {
        let is_reserved = RESERVED_IDS.contains(&text.to_lowercase().as_str())
            || text.bytes().all(|byte| byte == b'.') && text.len() <= 2;

        let id = text.parse::<CreatorId>();

        prop_assert_eq!(id.is_err(), is_reserved, "{}", text);
        if let Ok(id) = id {
            let json = serde_json::to_string(&id).unwrap();
            prop_assert_eq!(serde_json::from_str::<CreatorId>(&json).unwrap(), id);
        }
    }

    #[test]
    fn a_tag_is_kept_as_it_was_written(text in any::<String>(), good in "[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}") {
        if let Ok(tag) = text.parse::<CallTag>() {
            prop_assert_eq!(tag.as_str(), &text);
            prop_assert!(text.is_ascii() && text.len() <= TAG_BYTES_MAX);
        }
        let tag: CallTag = good.parse().unwrap();
        prop_assert_eq!(tag.as_str(), good);
    }

    #[test]
    fn the_length_of_a_password_is_counted_in_characters_of_any_width(text in "\\PC{0,140}") {
        let fits = PASSWORD_CHARS.contains(&text.chars().count());

        prop_assert_eq!(password_length_fits(&text), fits);
    }

    /// A platform's name is written into paths, commands, logs and labels of metrics.
    #[test]
    fn a_name_of_a_platform_is_plain(text in any::<String>(), good in "[a-z][a-z0-9_]{0,31}") {
        if platform::is_name(&text) {
            prop_assert!(text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')));
            prop_assert!((1..=32).contains(&text.len()));
        }
        prop_assert!(platform::is_name(&good));
    }
}

#[test]
fn reserved_words_are_refused_in_any_letter_case() {
    for word in RESERVED_IDS {
        for text in [(*word).to_owned(), word.to_uppercase()] {
            assert_eq!(text.parse::<CreatorId>(), Err(InvalidCreatorId::Reserved), "{text}");
        }
        assert!(format!("{word}1").parse::<CreatorId>().is_ok());
    }
}

#[test]
fn a_refused_id_says_what_to_change() {
    let said = |text: &str| text.parse::<CreatorId>().unwrap_err().to_string();

    assert_eq!(said(""), "must have 1 to 64 characters");
    assert_eq!(said(&"é".repeat(33)), "must have 1 to 64 characters");
    assert_eq!(said("a b"), "may hold letters, digits, `_`, `.` and `-` only");
    assert_eq!(said("admin"), "is a reserved word; choose another");
}

#[test]
fn an_address_has_at_most_254_characters_of_which_64_are_before_the_at() {
    let domain = |length: usize| format!("{}.com", "d".repeat(length - ".com".len()));
    let address = |local: usize, all: usize| {
        format!("{}@{}", "a".repeat(local), domain(all - local - 1)).parse::<Email>()
    };

    assert!(address(64, 254).is_ok());
    assert!(address(64, 255).is_err());
    assert!(address(65, 254).is_err());
    assert_eq!(
        address(1, 255).unwrap_err().to_string(),
        "must be an address such as ada@example.com, in ASCII, of at most 254 characters"
    );
}

#[test]
fn a_customer_is_named_by_id_or_address_and_by_nothing_else() {
    let id = CustomerId::new(Timestamp::from_unix_micros(1_000_000), [7; 10]);

    assert_eq!(id.to_string().parse(), Ok(CustomerRef::Id(id)));
    let by_address: CustomerRef = "Ada@Example.com".parse().unwrap();
    assert_eq!(by_address.to_string(), "ada@example.com");
    assert_eq!(serde_json::to_string(&by_address).unwrap(), "\"ada@example.com\"");
    let read: CustomerRef = serde_json::from_str(&format!("\"{id}\"")).unwrap();
    assert_eq!(read, CustomerRef::Id(id));
    for (text, problem) in [
        ("ada", "expected the id of a customer (cus_…) or an email address"),
        ("", "expected the id of a customer (cus_…) or an email address"),
        ("cus_1", "expected the id of a customer (cus_…) or an email address"),
        ("ada@", "must be an address such as ada@example.com, in ASCII, of at most 254 characters"),
    ] {
        assert_eq!(text.parse::<CustomerRef>(), Err(problem.to_owned()), "{text}");
    }
}

#[test]
fn a_host_is_this_machine_only_if_nobody_else_can_claim_its_name() {
    for host in [
        "localhost",
        "LocalHost",
        "127.0.0.1",
        "127.255.255.254",
        "::1",
        "[::1]",
        "::ffff:127.0.0.1",
    ] {
        assert!(is_loopback_host(host), "{host}");
    }
    for host in [
        "",
        "localhost.",
        "localhost.example",
        "xlocalhost",
        "127.0.0.1.example",
        "127.1",
        "2130706433",
        "0.0.0.0",
        "::",
        "128.0.0.1",
        "10.0.0.1",
        "::ffff:10.0.0.1",
        "::2",
        "127.0.0.1:80",
    ] {
        assert!(!is_loopback_host(host), "{host:?}");
    }
}

#[test]
fn an_operators_name_may_have_letters_of_any_script_and_64_of_them() {
    let name = "é".repeat(64);

    assert_eq!(name.parse().as_ref().map(OperatorName::as_str), Ok(name.as_str()));
    for wrong in ["é".repeat(65), "a\u{0}".to_owned(), "a\u{202e}b".to_owned(), "🙂".to_owned()]
    {
        assert_eq!(
            wrong.parse::<OperatorName>().unwrap_err().to_string(),
            "must have 1 to 64 letters, digits, `.`, `-`, `_` or `@`"
        );
    }
}

#[test]
fn a_common_password_is_found_in_any_letter_case_but_not_within_another() {
    for password in ["password", "PASSWORD", "PassWord", "12345678", "qwertyuiop"] {
        assert!(common_passwords::contains(password), "{password}");
    }
    for password in
        ["", "#", "password ", " password", "correct horse battery staple", "passwort98"]
    {
        assert!(!common_passwords::contains(password), "{password:?}");
    }
    assert!(
        !common_passwords::contains("# The passwords, names and words of at least"),
        "no comment is one"
    );
}

#[test]
fn an_invoice_is_named_as_the_processor_names_it() {
    let id = InvoiceId::from("in_1Mt\u{e9}");

    assert_eq!(id.as_str(), "in_1Mt\u{e9}");
    let json = serde_json::to_string(&id).unwrap();
    assert_eq!(serde_json::from_str::<InvoiceId>(&json).unwrap(), id);
}
