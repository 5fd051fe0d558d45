//! What can go wrong with an operator's work.

use domain::payment::OrderState;

/// Every way in which an operator's command is refused.
#[derive(Debug, thiserror::Error)]
pub enum OperatorProblem {
    /// Nothing matches what the operator named.
    #[error("there is no {what} {given}")]
    Unknown {
        /// What was looked for, such as `customer`.
        what: &'static str,
        /// What the operator named.
        given: String,
    },
    /// The customer was erased: nothing can be done for it any more.
    #[error("the customer was erased")]
    Erased,
    /// The customer was closed and not suspended, so there is nothing to resume.
    #[error("the customer is not suspended")]
    NotSuspended,
    /// The customer cannot be erased yet.
    #[error("the customer cannot be erased yet: {}", .0.join("; "))]
    NotErasable(Vec<&'static str>),
    /// The customer has paid for something that it would lose.
    #[error(
        "the customer would lose {credits} credits that it paid for, and {cents} cents of credit at the payment \
         processor; pay them back first, or repeat the command with --forfeit"
    )]
    WouldForfeit {
        /// The credits left of what was paid for.
        credits: i64,
        /// The credit for later invoices, in cents.
        cents: i64,
    },
    /// The order has no money to give back.
    #[error("the order is {0}; only a paid order can be refunded")]
    NotRefundable(OrderState),
    /// Nothing was paid for the order, as with a code for all of its price.
    #[error(
        "nothing was paid for the order, so there is nothing to give back; grant a negative number of credits to take \
         its credits"
    )]
    NothingPaid,
    /// The bank has taken the money of the order back.
    #[error(
        "the payment of the order is disputed and its money is at the bank, so there is nothing to give back"
    )]
    Disputed,
    /// The payment was settled before, in another way.
    #[error("this payment was settled before: {0}; nothing was changed")]
    SettledOtherwise(String),
    /// The payment processor cannot give this object's money back.
    #[error(
        "only a payment intent (pi_…) can be refunded from here; refund {0} at the payment processor and settle it \
         with a note"
    )]
    NotAPayment(String),
    /// The reference of a grant was used for something else.
    #[error("these credits were not granted: {0}")]
    NotGranted(&'static str),
}
