//! Disputes and warnings of fraud: where one stands, and what the operator does next.

use crate::id::{CustomerId, OrderId};
use crate::time::Timestamp;
use crate::wire::text_enum;

text_enum! {
    /// Where a dispute or a warning of fraud stands. It only moves down this list.
    DisputeStage,
    "one of warned, inquiry, inquiry_answered, open, answered, lost, ended, won" {
        /// A bank warns that the payment may be fraudulent; no money has moved.
        Warned = "warned",
        /// A bank asks about the payment; no money has moved.
        Inquiry = "inquiry",
        /// The bank reads the answer; no money has moved.
        InquiryAnswered = "inquiry_answered",
        /// The bank has taken the money; evidence is due.
        Open = "open",
        /// The bank reads the evidence.
        Answered = "answered",
        /// The money is gone for good.
        Lost = "lost",
        /// It ended without a decision: the question was dropped, or the payment that was warned of
        /// was refunded or disputed.
        Ended = "ended",
        /// The money came back.
        Won = "won",
    }
}

impl DisputeStage {
    /// Whether the bank has not decided yet.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Warned | Self::Inquiry | Self::InquiryAnswered | Self::Open | Self::Answered => {
                true
            }
            Self::Lost | Self::Ended | Self::Won => false,
        }
    }

    /// Whether the operator has to do something before the bank decides.
    pub const fn waits_for_operator(self) -> bool {
        match self {
            Self::Warned | Self::Inquiry | Self::Open => true,
            Self::InquiryAnswered | Self::Answered | Self::Lost | Self::Ended | Self::Won => false,
        }
    }
}

/// What was bought with a disputed payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisputedGoods {
    /// A pack.
    Pack(OrderId),
    /// A plan or slots.
    Subscription {
        /// Whether the subscription has not ended.
        is_live: bool,
    },
    /// It is not recorded.
    Unknown,
}

/// What the next step depends on.
#[derive(Debug, Clone, Copy)]
pub struct DisputeFacts {
    /// Where it stands.
    pub stage: DisputeStage,
    /// What was bought.
    pub goods: DisputedGoods,
    /// Who bought it, if that is known.
    pub customer: Option<CustomerId>,
    /// Until when evidence is taken.
    pub due_by: Option<Timestamp>,
}

impl DisputeFacts {
    /// What the operator does next, in one line.
    pub fn next_step(&self) -> String {
        let until = self.due_by.map(|at| format!(" by {at}")).unwrap_or_default();
        match (self.stage, self.goods) {
            (DisputeStage::Warned, DisputedGoods::Pack(order)) => format!(
                "nothing has moved yet; a refund now avoids a dispute and its fee: `creator-gateway admin refund {order}`"
            ),
            (DisputeStage::Warned, DisputedGoods::Subscription { .. } | DisputedGoods::Unknown) => {
                "nothing has moved yet; a refund at the payment processor now avoids a dispute and its fee"
                    .to_owned()
            }
            (DisputeStage::Inquiry, _) => format!(
                "answer the bank at the payment processor{until}, or refund the payment; no money has moved"
            ),
            (DisputeStage::Open, _) => format!(
                "send evidence at the payment processor{until}; the money and its credits are taken back until the bank \
                 decides"
            ),
            (DisputeStage::InquiryAnswered | DisputeStage::Answered, _) => {
                "wait for the bank's decision".to_owned()
            }
            (DisputeStage::Lost, DisputedGoods::Subscription { is_live: true }) => self.ending(),
            (DisputeStage::Lost, _) => "nothing: the money and its credits are gone".to_owned(),
            (DisputeStage::Won, _) => "nothing: the money and its credits are back".to_owned(),
            (DisputeStage::Ended, _) => "nothing".to_owned(),
        }
    }

    /// Accounts follow the subscription and not the money, so a lost dispute ends nothing by
    /// itself.
    fn ending(&self) -> String {
        let customer = self.customer.map_or_else(|| "CUSTOMER".to_owned(), |id| id.to_string());
        format!(
            "end the subscription, which goes on: `creator-gateway admin customers suspend {customer} --reason \"lost dispute\" \
             --cancel-subscription`, or cancel it at the payment processor"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_micros(1_790_000_000_000_000);

    fn next(stage: DisputeStage, goods: DisputedGoods) -> String {
        let customer = Some(CustomerId::new(NOW, [0; 10]));
        DisputeFacts { stage, goods, customer, due_by: Some(NOW) }.next_step()
    }

    #[test]
    fn a_stage_either_waits_for_somebody_or_is_over() {
        for stage in DisputeStage::ALL {
            assert!(stage.is_open() || !stage.waits_for_operator(), "{stage}");
            let over = !stage.is_open();
            let said = next(*stage, DisputedGoods::Unknown);
            assert_eq!(
                said.starts_with("nothing") && !said.contains("yet"),
                over,
                "{stage}: {said}"
            );
        }
    }

    #[test]
    fn evidence_is_asked_for_with_its_date() {
        for stage in [DisputeStage::Inquiry, DisputeStage::Open] {
            let said = next(stage, DisputedGoods::Unknown);
            assert!(said.contains(&format!("by {NOW}")), "{said}");
        }
    }

    #[test]
    fn a_lost_dispute_asks_to_end_a_live_subscription_only() {
        let live = next(DisputeStage::Lost, DisputedGoods::Subscription { is_live: true });
        assert!(live.contains("--cancel-subscription"), "{live}");
        for goods in [
            DisputedGoods::Subscription { is_live: false },
            DisputedGoods::Pack(OrderId::new(NOW, [0; 10])),
            DisputedGoods::Unknown,
        ] {
            assert_eq!(
                next(DisputeStage::Lost, goods),
                "nothing: the money and its credits are gone"
            );
        }
    }

    #[test]
    fn a_warning_about_a_pack_names_the_refund() {
        let order = OrderId::new(NOW, [1; 10]);
        assert!(
            next(DisputeStage::Warned, DisputedGoods::Pack(order)).contains(&order.to_string())
        );
    }
}
