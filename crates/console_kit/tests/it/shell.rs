//! The sidebar: every page has one place in it, and messages travel from page to page.

use std::collections::BTreeSet;

use console_kit::flash::{FlashKind, FlashMessage};
use console_kit::shell::{NAVIGATION, NavLink, STAFF_NAVIGATION};

fn links() -> Vec<&'static NavLink> {
    NAVIGATION.iter().chain(STAFF_NAVIGATION).flat_map(|group| group.links).collect()
}

#[test]
fn every_link_has_an_address_a_word_and_an_icon_of_its_own() {
    let links = links();
    for part in [
        links.iter().map(|link| link.path).collect::<BTreeSet<_>>(),
        links.iter().map(|link| link.word).collect(),
        links.iter().map(|link| link.icon).collect(),
    ] {
        assert_eq!(part.len(), links.len(), "{part:?}");
    }
    assert!(links.iter().all(|link| link.path.starts_with("/console")));
    let staff: Vec<&str> =
        STAFF_NAVIGATION.iter().flat_map(|group| group.links).map(|link| link.path).collect();
    assert_eq!(staff, ["/console/support"]);
}

#[test]
fn a_message_has_the_color_of_what_happened() {
    let messages = [
        (FlashMessage::ok("Saved."), FlashKind::Ok, "ok"),
        (FlashMessage::warn("Look."), FlashKind::Warn, "warn"),
        (FlashMessage::bad("Failed."), FlashKind::Bad, "bad"),
    ];
    for (message, kind, class) in messages {
        assert_eq!((message.kind, message.kind.class()), (kind, class));
        assert!(message.title.is_empty() && message.text.ends_with('.'));
    }
}

#[test]
fn a_message_is_removed_by_a_cookie_that_ends_at_once() {
    let removal = FlashMessage::removal(false);
    let removal = removal.to_str().unwrap();

    assert!(removal.starts_with("flash=; Path=/; Max-Age=0"), "{removal}");
    assert!(removal.contains("HttpOnly") && removal.contains("SameSite=Lax"), "{removal}");
    let over_https = FlashMessage::removal(true);
    let over_https = over_https.to_str().unwrap();
    assert!(over_https.starts_with("__Host-flash=; Path=/; Max-Age=0"), "{over_https}");
    assert!(over_https.ends_with("; Secure"), "{over_https}");
}
