//! What the operator is told by email: what needs a decision, and what to do. The same is in the
//! log, in the metrics and in the lists of the operator's commands.

use domain::dispute::DisputeStage;
use domain::id::{CustomerId, JobId};
use domain::time::Timestamp;
use jobs::JobError;
use mail::OutgoingMail;

use crate::text::{EmailContent, amount, time};
use crate::{EmailsState, finish};

/// What the operator is told.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum OperatorNotice {
    /// A dispute or a warning of fraud is new, or has moved on.
    Dispute {
        /// Its id at the processor.
        dispute: String,
        /// Where it stands.
        stage: DisputeStage,
        /// The disputed amount, in the smallest unit of the currency.
        amount_cents: i64,
        /// The currency, such as `usd`.
        currency: String,
        /// The bank's reason.
        reason: String,
        /// Who paid, if that is known.
        customer: Option<CustomerId>,
        /// Until when evidence is taken.
        due_by: Option<Timestamp>,
        /// What to do.
        next: String,
    },
    /// A price at the processor does not match, so what is sold at it is not for sale.
    PriceFault {
        /// What is sold at it, such as `pack:pack_10`.
        subject: String,
        /// The price.
        price_id: String,
        /// What is wrong.
        fault: String,
    },
}

/// Writes the email; `None` if the operator wants none.
pub(crate) fn write(
    emails: &EmailsState,
    notice: &OperatorNotice,
    job: JobId,
) -> Result<Option<OutgoingMail>, JobError> {
    let Some(to) = emails.config.mail.operator() else { return Ok(None) };
    finish(emails, &to, &content(notice), job).map(Some)
}

pub(crate) fn content(notice: &OperatorNotice) -> EmailContent {
    match notice {
        OperatorNotice::Dispute { dispute, stage, next, .. } => EmailContent {
            subject: subject(*stage),
            paragraphs: vec![facts(notice), format!("What to do: {next}.")],
            action: None,
            otherwise: format!(
                "`creator-gateway admin customers find {dispute}` shows who it is, and `creator-gateway admin disputes` \
                 lists all that are open."
            )
            .into(),
        },
        OperatorNotice::PriceFault { subject, price_id, fault } => EmailContent {
            subject: "A price does not match, and is not for sale",
            paragraphs: vec![
                format!("{subject} cannot be bought on a payment page: its price {price_id} {fault}."),
                "Correct the price at the payment processor, or name another one in the configuration. It is for sale \
                 again by itself, within ten minutes, once the price matches. Charges of saved cards and automatic \
                 top-up use the configured amount, and go on."
                    .to_owned(),
            ],
            action: None,
            otherwise: "`creator-gateway processor check` lists every price that does not match.".into(),
        },
    }
}

const fn subject(stage: DisputeStage) -> &'static str {
    match stage {
        DisputeStage::Warned => "A bank warns that a payment may be fraudulent",
        DisputeStage::Inquiry => "A bank asks about a payment",
        DisputeStage::Open => "A payment was disputed",
        DisputeStage::InquiryAnswered | DisputeStage::Answered => "A dispute was answered",
        DisputeStage::Lost => "A dispute was lost",
        DisputeStage::Ended => "A dispute or a warning has ended",
        DisputeStage::Won => "A dispute was won",
    }
}

/// The dispute in a sentence, and until when it can be answered.
fn facts(notice: &OperatorNotice) -> String {
    let OperatorNotice::Dispute {
        dispute, amount_cents, currency, reason, customer, due_by, ..
    } = notice
    else {
        return String::new();
    };
    let money = amount(*amount_cents, &currency.to_uppercase());
    let who = customer.map_or_else(|| "an unknown customer".to_owned(), |id| id.to_string());
    let until = due_by.map(|at| format!(" Evidence is taken until {}.", time(at)));
    format!(
        "{dispute} is about {money} that {who} paid; the reason given is `{reason}`.{}",
        until.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(stage: DisputeStage) -> EmailContent {
        let at = Timestamp::from_rfc3339("2026-11-29T12:34:56Z").unwrap();
        content(&OperatorNotice::Dispute {
            dispute: "dp_1".to_owned(),
            stage,
            amount_cents: 4_900,
            currency: "usd".to_owned(),
            reason: "fraudulent".to_owned(),
            customer: Some(CustomerId::new(at, [0; 10])),
            due_by: Some(at),
            next: "send evidence".to_owned(),
        })
    }

    #[test]
    fn an_email_about_a_dispute_says_how_much_who_why_until_when_and_what_to_do() {
        for stage in DisputeStage::ALL {
            let email = told(*stage);
            let text = email.paragraphs.join("\n");
            for part in [
                "dp_1",
                "49.00 USD",
                "cus_",
                "`fraudulent`",
                "2026-11-29 12:34 UTC",
                "send evidence",
            ] {
                assert!(text.contains(part), "{stage}: {text}");
            }
            assert!(email.otherwise.contains("customers find dp_1"));
        }
    }

    #[test]
    fn subjects_tell_what_is_urgent_from_what_is_over() {
        assert_eq!(told(DisputeStage::Open).subject, "A payment was disputed");
        assert_eq!(told(DisputeStage::Lost).subject, "A dispute was lost");
    }

    #[test]
    fn an_email_about_a_price_says_what_is_wrong_and_that_it_comes_back() {
        let email = content(&OperatorNotice::PriceFault {
            subject: "pack:pack_10".to_owned(),
            price_id: "price_1".to_owned(),
            fault: "costs 999 cents instead of 1000 cents".to_owned(),
        });
        let text = email.paragraphs.join("\n");
        for part in ["pack:pack_10", "price_1 costs 999 cents", "by itself"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_notice_survives_its_row_in_the_database() {
        let notice = OperatorNotice::PriceFault {
            subject: "plan:plan_studio".to_owned(),
            price_id: "price_1".to_owned(),
            fault: "is archived".to_owned(),
        };
        let request = crate::EmailRequest::Operator { notice };
        let json = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<crate::EmailRequest>(&json).unwrap(), request);
    }
}
