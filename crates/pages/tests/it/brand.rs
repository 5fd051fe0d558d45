//! The operator on pages: what is given is shown, and nothing in place of what is not.

use http::HeaderMap;
use pages::PageBrand;
use settings::Config;

use crate::{frame, state};

fn brand(toml: &str) -> PageBrand {
    PageBrand::of(&Config::from_toml(&format!("[brand]\n{toml}")).unwrap())
}

fn links(toml: &str) -> Vec<(&'static str, String)> {
    brand(toml).links.into_iter().map(|link| (link.word, link.address)).collect()
}

#[test]
fn without_a_brand_a_page_has_our_name_and_no_footer() {
    let brand = brand("");

    assert_eq!(brand.name, "creator-gateway");
    assert_eq!((brand.logo, &brand.operator, &brand.announcement), (None, &None, &None));
    assert!(brand.links.is_empty() && !brand.has_footer());
}

#[test]
fn links_stand_in_one_order_and_those_that_are_empty_are_left_out() {
    let all = "status_url = \"https://s.example\"\nprivacy_url = \"https://p.example\"\n\
               terms_url = \"https://t.example\"\nsupport_url = \"https://h.example\"";
    let address = |name: &str| format!("https://{name}.example");

    let expected = [
        ("Contact support", address("h")),
        ("Terms", address("t")),
        ("Privacy", address("p")),
        ("Status", address("s")),
    ];
    assert_eq!(links(all), expected);
    assert_eq!(links("privacy_url = \"https://p.example\""), expected[2..3]);
}

#[test]
fn support_is_a_page_or_else_an_email_address() {
    let email = "support_email = \"help@a.example\"";
    let page = "support_url = \"https://h.example\"";
    let support = |toml: &str| links(toml).remove(0);

    assert_eq!(support(email), ("Contact support", "mailto:help@a.example".to_owned()));
    let both = support(&format!("{email}\n{page}"));
    assert_eq!(both, ("Contact support", "https://h.example".to_owned()));
}

#[test]
fn an_operator_or_a_link_makes_a_footer_and_an_announcement_does_not() {
    for (toml, has_footer) in [
        ("operator = \"Acme Ltd\"", true),
        ("terms_url = \"https://t.example\"", true),
        ("support_email = \"help@a.example\"", true),
        ("announcement = \"Soon.\"", false),
        ("name = \"Acme\"", false),
    ] {
        assert_eq!(brand(toml).has_footer(), has_footer, "{toml}");
    }
}

#[test]
fn the_icon_of_tabs_is_the_operators_logo_or_our_mark() {
    let own = state("[brand]\nlogo_file = \"logo.png\"").frame(&HeaderMap::new());
    let usual = state("").frame(&HeaderMap::new());

    assert_eq!(own.icon(), "/console/logo");
    assert_eq!(own.brand().logo, Some("/console/logo"));
    assert!(usual.icon().starts_with("/assets/console-"), "{}", usual.icon());
}

#[test]
fn a_frame_has_the_theme_of_its_visitor() {
    for (cookie, theme) in [
        ("theme=dark", "dark"),
        ("theme=light", "light"),
        ("theme=auto", "auto"),
        ("theme=Dark", "auto"),
        ("theme=", "auto"),
        ("theme", "auto"),
        ("theme =dark", "auto"),
        ("a=theme=dark", "auto"),
        // The first one counts, as browsers send the closest path first.
        ("theme=light; theme=dark", "light"),
        (";;  theme=dark;", "dark"),
    ] {
        assert_eq!(frame("", cookie).theme.name(), theme, "{cookie}");
    }
}

#[test]
fn a_choice_of_theme_reads_back_as_itself() {
    for name in ["auto", "light", "dark"] {
        let theme = pages::PageTheme::parse(name).unwrap();

        let kept = theme.cookie(false);
        let kept = kept.to_str().unwrap();

        let (pair, attributes) = kept.split_once("; ").unwrap();
        assert_eq!(frame("", pair).theme, theme);
        assert_eq!(attributes, "Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax");
    }
    for name in ["", "DARK", "dark ", "system"] {
        assert_eq!(pages::PageTheme::parse(name), None, "{name}");
    }
}
