//! Jobs: the kinds of work that are written down with what makes them necessary and carried out afterwards,
//! and when one that failed is tried again.

use crate::wire::text_enum;

text_enum! {
    /// What a job does; its payload says with what.
    JobKind, "one of send_mail, process_event, adjust_credit, use_card, update_email" {
        /// Writes and sends one mail.
        SendMail = "send_mail",
        /// Acts on an event of the payment processor that could not be acted on when it came.
        ProcessEvent = "process_event",
        /// Changes what the payment processor holds for a customer.
        AdjustCredit = "adjust_credit",
        /// Puts a saved card on the customer's subscriptions and pays their open invoices with it.
        UseCard = "use_card",
        /// Gives the payment processor the customer's current email address.
        UpdateEmail = "update_email",
    }
}

/// Seconds after a job was written at which one that still fails is given up.
pub const GIVE_UP_AFTER_S: i64 = 3 * 86_400;

const FIRST_PAUSE_S: i64 = 5;
const LONGEST_PAUSE_S: i64 = 3_600;

/// Seconds until a job is tried again whose attempt number `attempt` (from 1) failed: 5, 10, 20, … up to an
/// hour. `chance` from 0 to 99 adds up to a fifth, so that jobs that failed together do not come back together.
pub fn pause_s(attempt: i64, chance: u8) -> i64 {
    let doublings = u32::try_from(attempt.saturating_sub(1).clamp(0, 20)).unwrap_or(0);
    let pause = FIRST_PAUSE_S.saturating_mul(1_i64 << doublings).min(LONGEST_PAUSE_S);
    let spread = pause.saturating_mul(i64::from(chance.min(99)));
    pause.saturating_add(spread.checked_div(500).unwrap_or(0))
}

/// The payload of [`JobKind::UpdateEmail`]: whose address is to be given to the processor.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub struct AddressChange {
    /// The customer.
    pub customer: crate::id::CustomerId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_an_hour() {
        let pauses: Vec<i64> = (0..=12).map(|attempt| pause_s(attempt, 0)).collect();

        assert_eq!(pauses, [5, 5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600]);
        assert_eq!(pause_s(i64::MAX, 0), LONGEST_PAUSE_S);
    }

    #[test]
    fn chance_adds_less_than_a_fifth() {
        assert_eq!(pause_s(20, 99), 3_600 + 712);
        assert_eq!(pause_s(20, 255), 3_600 + 712);
        assert!((0..100).all(|chance| pause_s(3, chance) < 24));
    }
}
