//! Notices: what customers are told without asking. Each kind can be switched off, except the one
//! about the password.

use std::borrow::Cow;

use domain::id::{CustomerId, JobId, KeyId};
use domain::notice::NoticeKind;
use domain::time::Timestamp;
use domain::top_up::TopUpWaitReason;
use jobs::JobError;
use mail::OutgoingMail;

use crate::text::{Action, ConsolePages, EmailContent, time};
use crate::{EmailsState, amount, finish, pages};

/// What a customer is told.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum CustomerNotice {
    /// The balance fell below the threshold. The balance is read when the email is written.
    LowBalance {
        /// The threshold.
        threshold: i64,
    },
    /// Automatic top-up buys nothing although the balance is low.
    TopUpWaits {
        /// Why.
        reason: TopUpWaitReason,
        /// When that ends by itself, if it does.
        until: Option<Timestamp>,
    },
    /// A key has used a part of its monthly budget.
    KeyBudget {
        /// The key.
        key: KeyId,
        /// Its name.
        name: String,
        /// The step that was reached, in percent.
        percent: i64,
        /// What it has spent this month.
        used: i64,
        /// What it may spend in a month.
        budget: i64,
        /// When the next month begins.
        resets_at: Timestamp,
    },
    /// Credits expire soon.
    ExpiringCredits {
        /// How many expire within the days that are looked ahead.
        credits: i64,
        /// When the first of them expire.
        first_at: Timestamp,
    },
    /// The saved card expires.
    ExpiringCard {
        /// The brand, such as `visa`.
        brand: String,
        /// The last four digits of its number.
        last4: String,
        /// The last month in which it can be charged, 1 to 12.
        month: i64,
        /// The year of that month.
        year: i64,
    },
    /// A top-up or an invoice was paid.
    Paid {
        /// Whether it was a top-up; otherwise an invoice of a plan or of slots.
        is_top_up: bool,
        /// The amount, in the smallest unit of the currency.
        amount_cents: i64,
        /// The currency, such as `usd`.
        currency: String,
        /// The credits that it brought.
        credits: i64,
    },
    /// The subscription has ended.
    SubscriptionEnded,
    /// A key was created or got a new secret.
    KeyChanged {
        /// The key's id.
        key: String,
        /// Its name, if it was recorded.
        name: String,
        /// Whether it is the secret of an existing key.
        is_rotation: bool,
        /// When.
        at: Timestamp,
    },
    /// The password was changed by someone who knew the old one.
    PasswordChanged {
        /// When.
        at: Timestamp,
    },
    /// An export has finished.
    ExportFinished {
        /// The export's id.
        export: String,
        /// The dataset.
        dataset: String,
        /// The account.
        account: String,
        /// Whether its file is ready; otherwise it failed.
        is_complete: bool,
    },
}

impl CustomerNotice {
    /// What it is about.
    pub const fn kind(&self) -> NoticeKind {
        match self {
            Self::LowBalance { .. } | Self::TopUpWaits { .. } => NoticeKind::LowBalance,
            Self::KeyBudget { .. } => NoticeKind::KeyBudgets,
            Self::ExpiringCredits { .. } => NoticeKind::ExpiringCredits,
            Self::ExpiringCard { .. } => NoticeKind::ExpiringCard,
            Self::Paid { .. } => NoticeKind::Payments,
            Self::SubscriptionEnded => NoticeKind::SubscriptionEnd,
            Self::KeyChanged { .. } => NoticeKind::KeyChanges,
            Self::PasswordChanged { .. } => NoticeKind::Password,
            Self::ExportFinished { .. } => NoticeKind::Exports,
        }
    }
}

/// Writes the email; `None` if the customer is closed or suspended, or the balance has risen.
pub(crate) async fn write(
    emails: &EmailsState,
    customer: CustomerId,
    notice: &CustomerNotice,
    job: JobId,
) -> Result<Option<OutgoingMail>, JobError> {
    let found = store::customers::find_by_id(&emails.store, customer).await?;
    let Some(open) = found.filter(|found| found.disabled_at.is_none()) else { return Ok(None) };
    let pages = pages(emails);
    let content = match notice {
        CustomerNotice::LowBalance { threshold } => {
            let default = emails.config.notices.low_balance();
            let low =
                store::notice_reasons::low_balance_of(&emails.store, customer, default).await?;
            let Some(balance) = low else { return Ok(None) };
            low_balance(balance, *threshold, &pages)
        }
        other => content(other, &pages, &emails.config.exports.kept_for()),
    };
    finish(emails, &open.email, &content, job).map(Some)
}

/// `kept_for` is how long a finished export is kept.
pub(crate) fn content(
    notice: &CustomerNotice,
    pages: &ConsolePages<'_>,
    kept_for: &str,
) -> EmailContent {
    match notice {
        CustomerNotice::LowBalance { threshold } => low_balance(0, *threshold, pages),
        CustomerNotice::TopUpWaits { reason, until } => top_up_waits(*reason, *until, pages),
        CustomerNotice::KeyBudget { key, name, percent, used, budget, resets_at } => {
            let named = named_key(&key.to_string(), name);
            let used = (*percent, *used, *budget);
            key_budget(&named, used, *resets_at, pages)
        }
        CustomerNotice::ExpiringCredits { credits, first_at } => {
            expiring_credits(*credits, *first_at, pages)
        }
        CustomerNotice::ExpiringCard { brand, last4, month, year } => {
            expiring_card(&format!("{brand} {last4}"), &format!("{year}-{month:02}"), pages)
        }
        CustomerNotice::Paid { is_top_up, amount_cents, currency, credits } => {
            let amount = amount(*amount_cents, &currency.to_uppercase());
            paid(*is_top_up, &amount, *credits, pages)
        }
        CustomerNotice::SubscriptionEnded => subscription_ended(pages),
        CustomerNotice::KeyChanged { key, name, is_rotation, at } => {
            key_changed(&named_key(key, name), *is_rotation, *at, pages)
        }
        CustomerNotice::PasswordChanged { at } => password_changed(*at),
        CustomerNotice::ExportFinished { export, dataset, account, is_complete } => {
            let what = format!("The export {export} ({dataset} of {account}) has finished.");
            export_finished(export, what, is_complete.then_some(kept_for), pages)
        }
    }
}

/// The line about how to stop emails of this kind.
fn switch_off(pages: &ConsolePages<'_>) -> Cow<'static, str> {
    let page = pages.page("settings#notices");
    format!("Choose which of these emails you get at {page} (or with PATCH /v1/notices).").into()
}

fn named_key(key: &str, name: &str) -> String {
    if name.is_empty() { key.to_owned() } else { format!("\u{201c}{name}\u{201d} ({key})") }
}

fn top_up_waits(
    reason: TopUpWaitReason,
    until: Option<Timestamp>,
    pages: &ConsolePages<'_>,
) -> EmailContent {
    let (what, help) = match reason {
        TopUpWaitReason::DailyCap => (
            "another pack does not fit under today's cap",
            "Raise the cap, or buy credits yourself, if you need more today.",
        ),
        TopUpWaitReason::PackNotSold => {
            ("the chosen pack is no longer sold", "Choose another pack, or buy credits yourself.")
        }
        TopUpWaitReason::Declined => (
            "your card was declined",
            "Check the card, or save another one. Saving the settings again tries it immediately.",
        ),
        TopUpWaitReason::FailedOften => {
            ("too many charges failed within a day", "Check the card, or buy credits yourself.")
        }
    };
    let end = until.map_or_else(String::new, |until| format!(" It goes on after {}.", time(until)));
    EmailContent {
        subject: "Automatic top-up is waiting",
        paragraphs: vec![
            format!("Your balance is low, and automatic top-up buys nothing: {what}.{end}"),
            help.to_owned(),
        ],
        action: Some(Action { label: "Check automatic top-up", link: pages.page("billing/topup") }),
        otherwise: switch_off(pages),
    }
}

pub(crate) fn low_balance(balance: i64, threshold: i64, pages: &ConsolePages<'_>) -> EmailContent {
    let state = if balance == 0 {
        "Your balance is used up, and calls are refused.".to_owned()
    } else {
        format!("Your balance is {balance} credits. When it is used up, calls are refused.")
    };
    EmailContent {
        subject: "Your balance is low",
        paragraphs: vec![
            state,
            format!("We send this email once when the balance falls below {threshold} credits."),
        ],
        action: Some(Action { label: "Buy credits", link: pages.payments.clone() }),
        otherwise: switch_off(pages),
    }
}

fn key_budget(
    key: &str,
    (percent, used, budget): (i64, i64, i64),
    resets_at: Timestamp,
    pages: &ConsolePages<'_>,
) -> EmailContent {
    let until = time(resets_at);
    let next = if percent >= 100 {
        format!("Calls with this key are refused until {until}, or until you raise its budget.")
    } else {
        format!("When the budget is used up, calls with this key are refused until {until}.")
    };
    EmailContent {
        subject: if percent >= 100 {
            "The monthly budget of a key is used up"
        } else {
            "A key has used most of its monthly budget"
        },
        paragraphs: vec![
            format!("The key {key} has used {used} of its {budget} credits for this month."),
            next,
        ],
        action: None,
        otherwise: switch_off(pages),
    }
}

fn expiring_credits(credits: i64, first_at: Timestamp, pages: &ConsolePages<'_>) -> EmailContent {
    EmailContent {
        subject: "Some of your credits expire soon",
        paragraphs: vec![
            format!(
                "{credits} of your credits expire soon, the first of them on {}.",
                time(first_at)
            ),
            format!(
                "Credits that expire first are spent first. When each part of your balance expires \
                 is at {} (or in GET /v1/billing).",
                pages.page("billing")
            ),
        ],
        action: Some(Action { label: "See your balance", link: pages.payments.clone() }),
        otherwise: switch_off(pages),
    }
}

fn expiring_card(card: &str, month: &str, pages: &ConsolePages<'_>) -> EmailContent {
    EmailContent {
        subject: "Your card expires soon",
        paragraphs: vec![
            format!("Your saved card ({card}) expires at the end of {month}."),
            "Save another card before then, so that your subscription and automatic top-up \
             continue. If your bank has renewed the card, it may keep working by itself."
                .to_owned(),
        ],
        action: Some(Action { label: "Update your card", link: pages.payments.clone() }),
        otherwise: switch_off(pages),
    }
}

fn paid(is_top_up: bool, amount: &str, credits: i64, pages: &ConsolePages<'_>) -> EmailContent {
    let (subject, what) = if is_top_up {
        (
            "Automatic top-up bought credits",
            format!("Your balance was low, so automatic top-up charged {amount} to your card."),
        )
    } else {
        ("A payment for your subscription", format!("We charged {amount} for your subscription."))
    };
    let mut paragraphs = vec![what];
    if credits > 0 {
        paragraphs.push(format!("{credits} credits were added to your balance."));
    }
    let (invoices, receipts) = (pages.page("billing/invoices"), pages.page("billing/orders"));
    paragraphs.push(format!(
        "Your invoices are at {invoices} (or in GET /v1/billing/invoices), and your receipts at \
         {receipts} (or in GET /v1/billing/orders)."
    ));
    EmailContent {
        subject,
        paragraphs,
        action: Some(Action { label: "See your payments", link: pages.payments.clone() }),
        otherwise: switch_off(pages),
    }
}

fn subscription_ended(pages: &ConsolePages<'_>) -> EmailContent {
    EmailContent {
        subject: "Your subscription has ended",
        paragraphs: vec![
            "Your subscription has ended, and you won't be charged for it again.".to_owned(),
            "The credits you have stay until they expire. Accounts beyond the included ones are \
             inactive but stay connected."
                .to_owned(),
        ],
        action: Some(Action { label: "View your plan", link: pages.payments.clone() }),
        otherwise: "You can subscribe again at any time.".into(),
    }
}

fn key_changed(
    key: &str,
    is_rotation: bool,
    at: Timestamp,
    pages: &ConsolePages<'_>,
) -> EmailContent {
    let at = time(at);
    let (subject, what) = if is_rotation {
        ("An API key got a new secret", format!("The API key {key} got a new secret on {at}."))
    } else {
        ("An API key was created", format!("The API key {key} was created on {at}."))
    };
    EmailContent {
        subject,
        paragraphs: vec![
            what,
            format!("Who did it is at {} (or in GET /v1/audit).", pages.page("audit")),
        ],
        action: None,
        otherwise: "If this wasn't you, delete the key, change your password, and contact support."
            .into(),
    }
}

fn password_changed(at: Timestamp) -> EmailContent {
    EmailContent {
        subject: "Your password was changed",
        paragraphs: vec![
            format!("The password of your account was changed on {}.", time(at)),
            "Whoever did this knew the old password. API keys keep working.".to_owned(),
        ],
        action: None,
        otherwise: "If this wasn't you, set a new password now and contact support.".into(),
    }
}

/// `kept_for` is there if the file is ready.
fn export_finished(
    export: &str,
    what: String,
    kept_for: Option<&str>,
    pages: &ConsolePages<'_>,
) -> EmailContent {
    let link = pages.page(&format!("exports/{export}"));
    let route = format!("GET /v1/exports/{export}");
    let (subject, next) = match kept_for {
        Some(kept_for) => (
            "Your export is ready",
            format!(
                "Download the file from its page (or with {route}). It is kept for {kept_for}."
            ),
        ),
        None => (
            "Your export failed",
            format!("You were not charged for it. Its page says why it failed (or {route})."),
        ),
    };
    EmailContent {
        subject,
        paragraphs: vec![what, next],
        action: Some(Action { label: "Open the export", link }),
        otherwise: switch_off(pages),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        Timestamp::from_unix_micros(1_800_000_000_000_000)
    }

    fn written(notice: &CustomerNotice) -> EmailContent {
        let pages = ConsolePages::new("https://x.example", "https://pay.example".to_owned());
        content(notice, &pages, "36 hours")
    }

    fn text(notice: &CustomerNotice) -> String {
        let content = written(notice);
        format!("{}\n{}", content.subject, content.paragraphs.join("\n"))
    }

    /// People read emails: an API route is never the only way that one names.
    #[test]
    fn pages_are_named_before_routes() {
        let paid = CustomerNotice::Paid {
            is_top_up: false,
            amount_cents: 100,
            currency: "usd".to_owned(),
            credits: 0,
        };
        let export = |is_complete| CustomerNotice::ExportFinished {
            export: "exp_1".to_owned(),
            dataset: "chats".to_owned(),
            account: "demo".to_owned(),
            is_complete,
        };
        let key = CustomerNotice::KeyChanged {
            key: "key_1".to_owned(),
            name: String::new(),
            is_rotation: true,
            at: at(),
        };
        let credits = CustomerNotice::ExpiringCredits { credits: 5, first_at: at() };

        for (notice, page, route) in [
            (&paid, "https://x.example/console/billing/invoices", "GET /v1/billing/invoices"),
            (&paid, "https://x.example/console/billing/orders", "GET /v1/billing/orders"),
            (&credits, "https://x.example/console/billing", "GET /v1/billing"),
            (&key, "https://x.example/console/audit", "GET /v1/audit"),
        ] {
            let text = text(notice);
            assert!(text.find(page).unwrap() < text.find(route).unwrap(), "{text}");
        }
        for is_complete in [true, false] {
            let content = written(&export(is_complete));
            let link = content.action.unwrap().link;
            assert_eq!(link, "https://x.example/console/exports/exp_1");
            let off = "Choose which of these emails you get at https://x.example/console/settings#notices \
                       (or with PATCH /v1/notices).";
            assert_eq!(content.otherwise, off);
        }
        assert!(text(&export(true)).contains("It is kept for 36 hours."));
        assert_eq!(written(&paid).action.unwrap().link, "https://pay.example");
    }

    #[test]
    fn a_used_up_budget_says_that_calls_are_refused() {
        let of = |percent| CustomerNotice::KeyBudget {
            key: KeyId::new(at(), [1; 10]),
            name: "nightly".to_owned(),
            percent,
            used: percent,
            budget: 100,
            resets_at: at(),
        };

        assert!(text(&of(80)).contains("80 of its 100 credits"));
        assert!(text(&of(80)).contains("When the budget is used up"));
        assert!(text(&of(100)).contains("are refused until 2027-01-15 08:00 UTC"));
        assert!(text(&of(100)).contains("nightly"));
    }

    #[test]
    fn amounts_and_months_are_written_for_people() {
        let paid = CustomerNotice::Paid {
            is_top_up: true,
            amount_cents: 1_050,
            currency: "usd".to_owned(),
            credits: 1_000,
        };
        let card = CustomerNotice::ExpiringCard {
            brand: "visa".to_owned(),
            last4: "4242".to_owned(),
            month: 3,
            year: 2027,
        };

        assert!(text(&paid).contains("charged 10.50 USD to your card"), "{}", text(&paid));
        assert!(text(&paid).contains("1000 credits"));
        assert!(text(&card).contains("visa 4242") && text(&card).contains("end of 2027-03"));
    }
}
