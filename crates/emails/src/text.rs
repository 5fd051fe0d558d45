//! The words of each letter, and the two forms they are written in.

use askama::Template;
use domain::customer::Email;
use domain::payment::ReversalKind;
use domain::time::Timestamp;

/// What a letter says.
pub(crate) struct Content {
    /// Its subject.
    pub(crate) subject: &'static str,
    /// What happened, a paragraph each.
    pub(crate) paragraphs: Vec<String>,
    /// What to do, if there is something.
    pub(crate) action: Option<Action>,
    /// What to do if it was somebody else.
    pub(crate) otherwise: &'static str,
}

/// A link, and what following it does.
pub(crate) struct Action {
    /// The words of the button.
    pub(crate) label: &'static str,
    /// Where it leads.
    pub(crate) link: String,
}

/// A letter for readers without HTML.
#[derive(Template)]
#[template(path = "email.txt")]
pub(crate) struct Plain<'a> {
    pub(crate) words: &'a Content,
    pub(crate) service: &'a str,
}

/// The same letter as HTML.
#[derive(Template)]
#[template(path = "email.html")]
pub(crate) struct Html<'a> {
    pub(crate) words: &'a Content,
    pub(crate) service: &'a str,
}

pub(crate) fn confirm_email(link: String, trial: i64) -> Content {
    let mut paragraphs =
        vec!["Somebody registered with this address. Confirm that it is yours.".to_owned()];
    if trial > 0 {
        paragraphs
            .push("If your account has a free trial, its credits are added with it.".to_owned());
    }
    paragraphs.push("The link works once, within 24 hours.".to_owned());
    Content {
        subject: "Confirm your address",
        paragraphs,
        action: Some(Action { label: "Confirm this address", link }),
        otherwise: "If you did not register, do nothing: the address stays unconfirmed.",
    }
}

pub(crate) fn change_email(link: String) -> Content {
    Content {
        subject: "Confirm your new address",
        paragraphs: vec![
            "A customer wants to be reached under this address from now on. Confirm that it is yours."
                .to_owned(),
            "The link works once, within 24 hours.".to_owned(),
        ],
        action: Some(Action { label: "Use this address", link }),
        otherwise: "If you did not ask for it, do nothing: no account gets your address.",
    }
}

pub(crate) fn email_change_asked(wanted: &Email) -> Content {
    Content {
        subject: "Your address is about to change",
        paragraphs: vec![
            format!("Your account asked to be reached under {wanted} instead of this address."),
            "It changes as soon as the new address is confirmed.".to_owned(),
        ],
        action: None,
        otherwise: "If it was not you, set a new password now: that also stops the change.",
    }
}

pub(crate) fn email_changed(current: &Email) -> Content {
    Content {
        subject: "Your address was changed",
        paragraphs: vec![format!(
            "Your account is reached under {current} from now on, and no longer under this address."
        )],
        action: None,
        otherwise: "If it was not you, write to those who run this service.",
    }
}

pub(crate) fn reset_password(link: String) -> Content {
    Content {
        subject: "Set a new password",
        paragraphs: vec![
            "Somebody asked for a new password for the account with this address.".to_owned(),
            "The link works once, within one hour. Every browser that is logged in is logged out then."
                .to_owned(),
        ],
        action: Some(Action { label: "Set a new password", link }),
        otherwise: "If it was not you, do nothing: your password stays as it is.",
    }
}

pub(crate) fn password_reset() -> Content {
    Content {
        subject: "Your password was changed",
        paragraphs: vec![
            "A new password was set for the account with this address, by a link that was mailed to it."
                .to_owned(),
            "Every browser that was logged in is logged out. API keys go on working.".to_owned(),
        ],
        action: None,
        otherwise: "If it was not you, somebody reads your mail: secure your mailbox, then set a new password.",
    }
}

pub(crate) fn accounts_deactivated(accounts: &[String], link: String) -> Content {
    Content {
        subject: "Some of your accounts are inactive",
        paragraphs: vec![
            "Your subscription has room for fewer accounts than before, so the newest ones are inactive now. \
             Calls to them are refused; they stay connected."
                .to_owned(),
            format!("Inactive now: {}.", accounts.join(", ")),
            "They become active again by themselves as soon as there is room for them.".to_owned(),
        ],
        action: Some(Action { label: "Look at your subscription", link }),
        otherwise: "If you expected this, there is nothing to do.",
    }
}

pub(crate) fn payment_failed(
    amount: &str,
    next_attempt: Option<Timestamp>,
    link: String,
) -> Content {
    let next = match next_attempt {
        Some(at) => format!("It is tried again on {}.", time(at)),
        None => "It is not tried again by itself.".to_owned(),
    };
    Content {
        subject: "A payment for your subscription failed",
        paragraphs: vec![
            format!("{amount} for your subscription could not be charged to your card."),
            next,
            "Until it is paid, no further slots can be bought; if it stays unpaid, the subscription ends."
                .to_owned(),
        ],
        action: Some(Action { label: "Look after your card", link }),
        otherwise: "If you have paid in the meantime, there is nothing to do.",
    }
}

/// What a reversal did to a customer's credits.
pub(crate) struct Credits {
    /// How many were taken (positive) or given back (negative).
    pub(crate) moved: i64,
    /// What can be spent afterwards.
    pub(crate) balance: i64,
    /// What is owed afterwards.
    pub(crate) debt: i64,
    /// Whether automatic top-up was on until this turned it off.
    pub(crate) stops_top_up: bool,
}

pub(crate) fn money_reversed(
    (kind, is_undone): (ReversalKind, bool),
    amount: &str,
    credits: &Credits,
    link: String,
) -> Content {
    let what = match (kind, is_undone) {
        (ReversalKind::Refund, false) => format!("{amount} were refunded to you."),
        (ReversalKind::Refund, true) => {
            format!("A refund of {amount} failed: the money is with us again.")
        }
        (ReversalKind::Dispute, false) => {
            format!("You disputed a payment of {amount} through your bank.")
        }
        (ReversalKind::Dispute, true) => format!("The dispute of {amount} ended in our favour."),
    };
    let moved = match credits.moved {
        0 => "Your credits did not change.".to_owned(),
        taken if taken > 0 => {
            format!("{taken} credits that the payment had bought were taken back.")
        }
        given => format!("{} credits were given back.", given.saturating_neg()),
    };
    let mut paragraphs =
        vec![what, moved, format!("Your balance is {} credits now.", credits.balance)];
    if credits.debt > 0 {
        let why = if credits.moved > 0 { "Some of them had been spent already: " } else { "" };
        paragraphs.push(format!(
            "{why}{} credits are owed. What you buy next pays them first; until then calls are refused.",
            credits.debt
        ));
    }
    if credits.stops_top_up {
        paragraphs.push(
            "Automatic top-up was turned off, so that your card is not charged without you."
                .to_owned(),
        );
    }
    Content {
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
        otherwise: "If you did not expect this, answer the operator of the service.",
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

pub(crate) fn top_up_waits(amount: &str, until: &str, link: String) -> Content {
    Content {
        subject: "Your bank wants you to confirm a payment",
        paragraphs: vec![
            format!(
                "Your balance is low, and automatic top-up charged {amount} to your card. Your bank wants you to \
                 confirm the payment before it is made."
            ),
            "Nothing is charged until you confirm it, and automatic top-up is paused. When your credits are used up, \
             calls are refused."
                .to_owned(),
            format!("The link works until {until}. Then the payment is cancelled."),
        ],
        action: Some(Action { label: "Confirm the payment", link }),
        otherwise: "If you no longer want automatic top-up, turn it off (POST /v1/billing/autotopup): that cancels the \
                    payment too.",
    }
}

pub(crate) fn top_up_stopped(link: String) -> Content {
    Content {
        subject: "Automatic top-up was turned off",
        paragraphs: vec![
            "Your balance is low, and your card was declined several times in a row. Automatic top-up was turned \
             off, so that your bank is not asked again and again."
                .to_owned(),
            "Nothing was charged by these attempts. When your credits are used up, calls are refused.".to_owned(),
        ],
        action: Some(Action { label: "Look after your card", link }),
        otherwise: "Save another card, or ask your bank, and turn automatic top-up on again.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Content {
        confirm_email("https://api.example.com/console/confirm?token=a-b_c".to_owned(), 500)
    }

    #[test]
    fn both_forms_say_the_same_and_hold_the_link() {
        let words = words();
        let service = "https://api.example.com";

        let plain = Plain { words: &words, service }.render().unwrap();
        let html = Html { words: &words, service }.render().unwrap();

        for paragraph in &words.paragraphs {
            assert!(plain.contains(paragraph.as_str()) && html.contains(paragraph.as_str()));
        }
        let link = &words.action.as_ref().unwrap().link;
        assert!(plain.lines().any(|line| line == link), "{plain}");
        assert!(html.contains(&format!("href=\"{link}\"")), "{html}");
    }

    #[test]
    fn amounts_have_two_digits_of_cents() {
        assert_eq!(amount(2_905, "USD"), "29.05 USD");
        assert_eq!(amount(7, "USD"), "0.07 USD");
    }

    #[test]
    fn the_next_attempt_of_a_payment_is_a_time_for_people() {
        let at = Timestamp::from_rfc3339("2026-12-03T09:30:15.123456Z");

        let words = payment_failed("29.00 USD", at, String::new());

        assert_eq!(words.paragraphs[1], "It is tried again on 2026-12-03 09:30 UTC.");
    }

    /// The subject says what the text says, and nobody reads of an automatic top-up that was off before.
    #[test]
    fn what_went_back_is_told_as_it_is() {
        use ReversalKind::{Dispute, Refund};
        let told = |what, moved, stops_top_up| {
            let credits = Credits { moved, balance: 5, debt: 2, stops_top_up };
            let words = money_reversed(what, "10.00 USD", &credits, String::new());
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
            assert_eq!(text.contains("Some of them had been spent"), moved > 0, "{text}");
            assert!(text.contains("2 credits are owed") && !text.contains("top-up"), "{text}");
        }
        assert!(told((Refund, false), 0, true).1.contains("Automatic top-up was turned off,"));
    }

    #[test]
    fn times_are_told_to_the_minute() {
        let at = Timestamp::from_rfc3339("2026-11-29T12:34:56.789Z").unwrap();

        assert_eq!(time(at), "2026-11-29 12:34 UTC");
    }

    #[test]
    fn what_stands_in_a_letter_cannot_become_html() {
        let mut words = words();
        words.paragraphs = vec!["<img src=x> & more".to_owned()];

        let html = Html { words: &words, service: "https://x.example" }.render().unwrap();

        assert!(html.contains("&#60;img src=x&#62; &#38; more"), "{html}");
    }
}
