//! Jobs: the kinds of work that are recorded in the transaction that makes them necessary and run
//! afterwards, and when a failed one is retried.

use crate::wire::text_enum;

text_enum! {
    /// What a job does; its payload holds the details.
    JobKind, "one of send_mail, process_event, adjust_credit, use_card, update_email, delete_payer" {
        /// Renders and sends one email.
        SendMail = "send_mail",
        /// Processes an event of the payment processor that could not be processed when it arrived.
        ProcessEvent = "process_event",
        /// Changes the credit that the payment processor holds for a customer.
        AdjustCredit = "adjust_credit",
        /// Makes a saved card the one that pays the customer's subscriptions, and pays their open
        /// invoices with it.
        UseCard = "use_card",
        /// Sends the customer's current email address to the payment processor.
        UpdateEmail = "update_email",
        /// Deletes a customer at the payment processor, after it was erased here.
        DeletePayer = "delete_payer",
    }
}

/// The age in seconds at which a job that still fails is given up.
pub const GIVE_UP_AFTER_S: i64 = 3 * 86_400;

const FIRST_PAUSE_S: i64 = 5;
const LONGEST_PAUSE_S: i64 = 3_600;

/// Seconds before the retry that follows failed attempt `attempt` (from 1): 5, 10, 20, … up to an
/// hour. `chance`, a random number from 0 to 99, adds up to a fifth, so that jobs that failed
/// together are not retried together.
pub fn pause_s(attempt: i64, chance: u8) -> i64 {
    let doublings = u32::try_from(attempt.saturating_sub(1).clamp(0, 20)).unwrap_or(0);
    let pause = FIRST_PAUSE_S.saturating_mul(1_i64 << doublings).min(LONGEST_PAUSE_S);
    let spread = pause.saturating_mul(i64::from(chance.min(99)));
    pause.saturating_add(spread.checked_div(500).unwrap_or(0))
}

/// The payload of [`JobKind::UpdateEmail`]: the customer whose address the processor needs.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub struct AddressChange {
    /// The customer.
    pub customer: crate::id::CustomerId,
}

/// The payload of [`JobKind::DeletePayer`]: what the processor knows an erased customer by.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PayerDeletion {
    /// The processor's id of the customer.
    pub processor_customer: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delays_double_up_to_an_hour() {
        let pauses: Vec<i64> = (0..=12).map(|attempt| pause_s(attempt, 0)).collect();

        assert_eq!(pauses, [5, 5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600]);
        assert_eq!(pause_s(i64::MAX, 0), LONGEST_PAUSE_S);
    }

    #[test]
    fn jitter_adds_less_than_a_fifth() {
        assert_eq!(pause_s(20, 99), 3_600 + 712);
        assert_eq!(pause_s(20, 255), 3_600 + 712);
        assert!((0..100).all(|chance| pause_s(3, chance) < 24));
    }
}
