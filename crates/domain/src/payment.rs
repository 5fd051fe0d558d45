//! Payments: the states of an order, and what takes credits back.

use crate::wire::text_enum;

text_enum! {
    /// Where an order stands. Money that arrives late still pays a failed or expired order.
    OrderState, "one of pending, paid, failed, expired, refunded" {
        /// Nobody knows yet whether it will be paid.
        Pending = "pending",
        /// Paid, and its credits granted.
        Paid = "paid",
        /// The payment was declined or given up.
        Failed = "failed",
        /// Nobody paid in time.
        Expired = "expired",
        /// Paid, and all of the money given back.
        Refunded = "refunded",
    }
}

text_enum! {
    /// How an order is paid.
    OrderChannel, "one of checkout, charge, top_up" {
        /// On the processor's page.
        Checkout = "checkout",
        /// With the saved card, while the customer waits.
        Charge = "charge",
        /// With the saved card, without the customer.
        TopUp = "top_up",
    }
}

text_enum! {
    /// What kind of object of the processor a payment is known by; the source of its ledger entry.
    PaymentSource, "one of pi, invoice" {
        /// A payment intent: packs.
        Intent = "pi",
        /// An invoice of a subscription.
        Invoice = "invoice",
    }
}

text_enum! {
    /// How money goes back.
    ReversalKind, "one of refund, dispute" {
        /// Given back by the operator.
        Refund = "refund",
        /// Claimed back through the customer's bank.
        Dispute = "dispute",
    }
}

text_enum! {
    /// Where a refund or a dispute stands. It only moves downwards in this list.
    ReversalState, "one of waiting, standing, undone" {
        /// An inquiry of the bank: no money has moved.
        Waiting = "waiting",
        /// The money is, or is about to be, with the customer.
        Standing = "standing",
        /// The refund failed or was cancelled, the dispute was won: the money is with the operator.
        Undone = "undone",
    }
}

text_enum! {
    /// Why money that the processor shows was not booked.
    Mismatch, "one of unknown_order, other_customer, other_amount, other_currency, other_mode, other_payment, \
               unknown_payment, missing_payment" {
        /// It names an order that does not exist.
        UnknownOrder = "unknown_order",
        /// It was paid by another customer than the order's.
        OtherCustomer = "other_customer",
        /// It is another amount than the order's.
        OtherAmount = "other_amount",
        /// It is in another currency than the order's.
        OtherCurrency = "other_currency",
        /// It is from the processor's test mode where the order is not, or the reverse.
        OtherMode = "other_mode",
        /// Its order was paid before by another payment.
        OtherPayment = "other_payment",
        /// A refund or dispute of a payment that was never booked.
        UnknownPayment = "unknown_payment",
        /// It is booked, and the processor does not have it.
        MissingPayment = "missing_payment",
    }
}

impl OrderState {
    /// Whether its money arrived.
    pub const fn is_paid(self) -> bool {
        match self {
            Self::Paid | Self::Refunded => true,
            Self::Pending | Self::Failed | Self::Expired => false,
        }
    }
}
