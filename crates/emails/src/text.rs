//! The texts of each email, and its two formats.

use std::borrow::Cow;

use askama::Template;
use domain::customer::Email;
use domain::payment::ReversalKind;
use domain::time::Timestamp;
use settings::brand::BrandSection;

/// The content of an email.
pub(crate) struct EmailContent {
    /// The subject.
    pub(crate) subject: &'static str,
    /// What happened, one paragraph each.
    pub(crate) paragraphs: Vec<String>,
    /// What to do, if anything.
    pub(crate) action: Option<Action>,
    /// What to do if this was not expected.
    pub(crate) otherwise: Cow<'static, str>,
}

/// The pages of the console that emails name, built from `http.public_base_url`.
pub(crate) struct ConsolePages<'a> {
    base: &'a str,
    /// Where a customer manages payments; the operator may have a page of its own.
    pub(crate) payments: String,
}

impl<'a> ConsolePages<'a> {
    pub(crate) const fn new(public_base_url: &'a str, payments: String) -> Self {
        Self { base: public_base_url, payments }
    }

    /// A page below `/console/`.
    pub(crate) fn page(&self, path: &str) -> String {
        format!("{}/console/{path}", self.base.trim_end_matches('/'))
    }
}

/// A button and its link.
pub(crate) struct Action {
    /// The label of the button.
    pub(crate) label: &'static str,
    /// The address of the link.
    pub(crate) link: String,
}

/// An email as plain text.
#[derive(Template)]
#[template(path = "email.txt")]
pub(crate) struct Plain<'a> {
    pub(crate) words: &'a EmailContent,
    pub(crate) service: &'a str,
    pub(crate) brand: &'a BrandSection,
}

/// The same email as HTML.
#[derive(Template)]
#[template(path = "email.html")]
pub(crate) struct Html<'a> {
    pub(crate) words: &'a EmailContent,
    pub(crate) service: &'a str,
    pub(crate) brand: &'a BrandSection,
}

pub(crate) fn confirm_email(link: String, trial: i64) -> EmailContent {
    let mut paragraphs = vec![
        "An account was registered with this email address. Confirm that the address is yours."
            .to_owned(),
    ];
    if trial > 0 {
        paragraphs.push(
            "If your account has a free trial, its credits are added when you confirm.".to_owned(),
        );
    }
    paragraphs.push("The link works once, within 24 hours.".to_owned());
    EmailContent {
        subject: "Confirm your email address",
        paragraphs,
        action: Some(Action { label: "Confirm this address", link }),
        otherwise: "If you didn't register, ignore this email. The address stays unconfirmed."
            .into(),
    }
}

pub(crate) fn change_email(link: String) -> EmailContent {
    EmailContent {
        subject: "Confirm your new email address",
        paragraphs: vec![
            "A customer asked to use this email address for their account. Confirm that the address is yours."
                .to_owned(),
            "The link works once, within 24 hours.".to_owned(),
        ],
        action: Some(Action { label: "Use this address", link }),
        otherwise: "If you didn't ask for this, ignore this email. Your address won't be used.".into(),
    }
}

pub(crate) fn email_change_asked(wanted: &Email) -> EmailContent {
    EmailContent {
        subject: "Your email address is about to change",
        paragraphs: vec![
            format!("Someone asked to change your account's email address to {wanted}."),
            "The change takes effect when the new address is confirmed.".to_owned(),
        ],
        action: None,
        otherwise: "If this wasn't you, set a new password now. That also cancels the change."
            .into(),
    }
}

pub(crate) fn email_changed(current: &Email) -> EmailContent {
    EmailContent {
        subject: "Your email address was changed",
        paragraphs: vec![format!(
            "Your account now uses {current}. This address is no longer used."
        )],
        action: None,
        otherwise: "If this wasn't you, contact support.".into(),
    }
}

pub(crate) fn reset_password(link: String) -> EmailContent {
    EmailContent {
        subject: "Set a new password",
        paragraphs: vec![
            "A new password was requested for the account with this email address.".to_owned(),
            "The link works once, within one hour. Setting a new password signs you out of every browser."
                .to_owned(),
        ],
        action: Some(Action { label: "Set a new password", link }),
        otherwise: "If this wasn't you, ignore this email. Your password won't change.".into(),
    }
}

pub(crate) fn password_reset(keys_revoked: bool) -> EmailContent {
    let ended = if keys_revoked {
        "Your email address is confirmed. Everything that was set up before no longer gives access: the old password, API keys and signed-in browsers."
    } else {
        "You were signed out of every browser. API keys keep working."
    };
    EmailContent {
        subject: "Your password was changed",
        paragraphs: vec![
            "The password of the account with this email address was changed with a link that we emailed to it."
                .to_owned(),
            ended.to_owned(),
        ],
        action: None,
        otherwise: "If this wasn't you, someone else may have access to your email. Secure your mailbox, then set a new password.".into(),
    }
}

pub(crate) fn accounts_deactivated(accounts: &[String], link: String) -> EmailContent {
    EmailContent {
        subject: "Some of your accounts are inactive",
        paragraphs: vec![
            "Your subscription now includes fewer accounts, so the newest ones are inactive. They stay connected, but \
             calls to them are refused."
                .to_owned(),
            format!("Now inactive: {}.", accounts.join(", ")),
            "They become active again automatically when your subscription has room for them.".to_owned(),
        ],
        action: Some(Action { label: "View your subscription", link }),
        otherwise: "If you expected this, no action is needed.".into(),
    }
}

pub(crate) fn payment_failed(
    amount: &str,
    next_attempt: Option<Timestamp>,
    link: String,
) -> EmailContent {
    let next = match next_attempt {
        Some(at) => format!("We'll try again on {}.", time(at)),
        None => "We won't try again automatically.".to_owned(),
    };
    EmailContent {
        subject: "A payment for your subscription failed",
        paragraphs: vec![
            format!("We couldn't charge your card {amount} for your subscription."),
            next,
            "Until this is paid, you can't buy more slots. If it stays unpaid, your subscription ends."
                .to_owned(),
        ],
        action: Some(Action { label: "Update your card", link }),
        otherwise: "If you have already paid, no action is needed.".into(),
    }
}

/// What a reversal did to a customer's credits.
pub(crate) struct ReversedCredits {
    /// Credits taken (positive) or returned (negative).
    pub(crate) moved: i64,
    /// The balance afterwards.
    pub(crate) balance: i64,
    /// The debt afterwards.
    pub(crate) debt: i64,
    /// Whether this turned automatic top-up off.
    pub(crate) stops_top_up: bool,
}

pub(crate) fn money_reversed(
    kind: ReversalKind,
    is_undone: bool,
    amount: &str,
    credits: &ReversedCredits,
    link: String,
) -> EmailContent {
    let what = match (kind, is_undone) {
        (ReversalKind::Refund, false) => format!("{amount} was refunded to you."),
        (ReversalKind::Refund, true) => {
            format!("A refund of {amount} failed, and the money was returned to us.")
        }
        (ReversalKind::Dispute, false) => {
            format!("You disputed a payment of {amount} through your bank.")
        }
        (ReversalKind::Dispute, true) => {
            format!("The dispute over {amount} was decided in our favor.")
        }
    };
    let moved = match credits.moved {
        0 => "Your credits did not change.".to_owned(),
        taken if taken > 0 => {
            format!("{taken} credits bought with this payment were removed.")
        }
        given => format!("{} credits were restored.", given.saturating_neg()),
    };
    let mut paragraphs =
        vec![what, moved, format!("Your balance is now {} credits.", credits.balance)];
    if credits.debt > 0 {
        let why = if credits.moved > 0 { "Some of them were already spent: " } else { "" };
        paragraphs.push(format!(
            "{why}{} credits are owed. Your next purchase pays these first; until then, calls are refused.",
            credits.debt
        ));
    }
    if credits.stops_top_up {
        paragraphs.push(
            "Automatic top-up was turned off so that your card isn't charged unexpectedly."
                .to_owned(),
        );
    }
    EmailContent {
        subject: match (kind, credits.moved, is_undone) {
            (ReversalKind::Refund, 0, false) => "A payment was refunded to you",
            (ReversalKind::Refund, 0, true) => "A refund failed",
            (ReversalKind::Dispute, 0, false) => "A payment was disputed",
            (ReversalKind::Dispute, 0, true) => "A dispute has ended",
            (ReversalKind::Refund, _, _) => "A refund changed your credits",
            (ReversalKind::Dispute, _, _) => "A dispute changed your credits",
        },
        paragraphs,
        action: Some(Action { label: "See your balance", link }),
        otherwise: "If you didn't expect this, contact support.".into(),
    }
}

/// An amount for people, such as `29.00 USD`.
pub fn amount(cents: i64, currency: &str) -> String {
    let cents = cents.max(0);
    format!("{}.{:02} {currency}", cents / 100, cents % 100)
}

/// A time for people, to the minute, such as `2026-11-29 12:00 UTC`.
pub fn time(at: Timestamp) -> String {
    let text = at.to_rfc3339();
    let minute = text.get(..16).unwrap_or(&text);
    format!("{} UTC", minute.replace('T', " "))
}

pub(crate) fn top_up_waits(
    amount: &str,
    until: &str,
    link: String,
    settings: &str,
) -> EmailContent {
    EmailContent {
        subject: "Your bank wants you to confirm a payment",
        paragraphs: vec![
            format!(
                "Your balance is low, and automatic top-up started a payment of {amount} with your card. Your \
                 bank wants you to confirm it first."
            ),
            "Nothing is charged until you confirm, and automatic top-up is paused. When your credits run out, calls \
             are refused."
                .to_owned(),
            format!("The link works until {until}. After that, the payment is cancelled."),
        ],
        action: Some(Action { label: "Confirm the payment", link }),
        otherwise: format!(
            "If you no longer want automatic top-up, turn it off at {settings} (or with POST /v1/billing/autotopup). \
             That also cancels this payment."
        )
        .into(),
    }
}

pub(crate) fn top_up_stopped(link: String) -> EmailContent {
    EmailContent {
        subject: "Automatic top-up was turned off",
        paragraphs: vec![
            "Your balance is low, and your card was declined several times in a row, so automatic top-up was turned \
             off."
                .to_owned(),
            "None of these attempts charged your card. When your credits run out, calls are refused.".to_owned(),
        ],
        action: Some(Action { label: "Update your card", link }),
        otherwise: "Save another card or contact your bank, then turn automatic top-up on again.".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> EmailContent {
        confirm_email("https://api.example.com/console/confirm?token=a-b_c".to_owned(), 500)
    }

    fn brand() -> BrandSection {
        let config = settings::Config::from_toml(
            "[brand]\nname = \"Acme & Co\"\nsupport_email = \"help@acme.example\"\noperator = \"Acme Ltd\"\naccent.light = \"#aa0011\"\nlogo_file = \"a.png\"",
        )
        .unwrap();
        *config.brand
    }

    #[test]
    fn emails_carry_the_name_the_support_address_and_the_colors_of_the_operator() {
        let words = words();
        let service = "https://api.example.com";
        let plain = Plain { words: &words, service, brand: &brand() }.render().unwrap();
        let html = Html { words: &words, service, brand: &brand() }.render().unwrap();

        assert!(plain.contains("Acme & Co, https://api.example.com"), "{plain}");
        assert!(plain.contains("\nOperated by Acme Ltd\n"), "{plain}");
        assert!(plain.contains("Questions? Write to help@acme.example."), "{plain}");
        assert!(!plain.contains("creator-gateway") && !html.contains("creator-gateway"));
        for part in [
            "Acme &#38; Co",
            "Operated by Acme Ltd",
            "mailto:help@acme.example",
            "background:#aa0011",
            "https://api.example.com/console/logo",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn text_and_html_have_the_same_content_and_link() {
        let words = words();
        let service = "https://api.example.com";

        let plain = Plain { words: &words, service, brand: &brand() }.render().unwrap();
        let html = Html { words: &words, service, brand: &brand() }.render().unwrap();

        for paragraph in &words.paragraphs {
            assert!(plain.contains(paragraph.as_str()) && html.contains(paragraph.as_str()));
        }
        let link = &words.action.as_ref().unwrap().link;
        assert!(plain.lines().any(|line| line == link), "{plain}");
        assert!(html.contains(&format!("href=\"{link}\"")), "{html}");
    }

    #[test]
    fn amounts_have_two_decimals() {
        assert_eq!(amount(2_905, "USD"), "29.05 USD");
        assert_eq!(amount(7, "USD"), "0.07 USD");
    }

    #[test]
    fn next_payment_attempt_is_shown_to_the_minute() {
        let at = Timestamp::from_rfc3339("2026-12-03T09:30:15.123456Z");

        let words = payment_failed("29.00 USD", at, String::new());

        assert_eq!(words.paragraphs[1], "We'll try again on 2026-12-03 09:30 UTC.");
    }

    /// The subject matches the text, and automatic top-up is mentioned only if it was turned off.
    #[test]
    fn reversal_email_matches_what_happened() {
        use ReversalKind::{Dispute, Refund};
        let told = |(kind, is_undone), moved, stops_top_up| {
            let credits = ReversedCredits { moved, balance: 5, debt: 2, stops_top_up };
            let words = money_reversed(kind, is_undone, "10.00 USD", &credits, String::new());
            (words.subject, words.paragraphs.join("\n"))
        };
        for (what, moved, subject) in [
            ((Refund, false), 0, "A payment was refunded to you"),
            ((Refund, true), 0, "A refund failed"),
            ((Dispute, false), 0, "A payment was disputed"),
            ((Dispute, true), 0, "A dispute has ended"),
            ((Refund, false), 7, "A refund changed your credits"),
            ((Dispute, true), -7, "A dispute changed your credits"),
        ] {
            let (said, text) = told(what, moved, false);
            assert_eq!(said, subject);
            assert_eq!(text.contains("Your credits did not change."), moved == 0, "{text}");
            assert_eq!(text.contains("Some of them were already spent"), moved > 0, "{text}");
            assert!(text.contains("2 credits are owed") && !text.contains("top-up"), "{text}");
        }
        assert!(told((Refund, false), 0, true).1.contains("Automatic top-up was turned off"));
    }

    #[test]
    fn times_are_shown_to_the_minute() {
        let at = Timestamp::from_rfc3339("2026-11-29T12:34:56.789Z").unwrap();

        assert_eq!(time(at), "2026-11-29 12:34 UTC");
    }

    #[test]
    fn text_in_an_email_is_escaped_as_html() {
        let mut words = words();
        words.paragraphs = vec!["<img src=x> & more".to_owned()];

        let html =
            Html { words: &words, service: "https://x.example", brand: &brand() }.render().unwrap();

        assert!(html.contains("&#60;img src=x&#62; &#38; more"), "{html}");
    }
}
