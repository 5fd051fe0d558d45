//! Payments: the states of an order, and the reversals that take credits back.

use crate::wire::text_enum;

text_enum! {
    /// The state of an order. Money that arrives late still pays a failed or expired order.
    OrderState, "one of pending, paid, failed, expired, refunded" {
        /// It is not known yet whether it will be paid.
        Pending = "pending",
        /// Paid, and its credits granted.
        Paid = "paid",
        /// The payment was declined or given up.
        Failed = "failed",
        /// Not paid in time.
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
    /// The kind of processor object that identifies a payment; the source of its ledger entry.
    PaymentSource, "one of pi, invoice" {
        /// A payment intent: packs.
        Intent = "pi",
        /// An invoice of a subscription.
        Invoice = "invoice",
    }
}

text_enum! {
    /// How money goes back to the customer.
    ReversalKind, "one of refund, dispute" {
        /// Refunded by the operator.
        Refund = "refund",
        /// Claimed back through the customer's bank.
        Dispute = "dispute",
    }
}

text_enum! {
    /// The state of a refund or dispute. It only moves down this list.
    ReversalState, "one of waiting, standing, undone" {
        /// An inquiry by the bank: no money has moved.
        Waiting = "waiting",
        /// The customer has the money, or is about to get it.
        Standing = "standing",
        /// The refund failed or was cancelled, or the dispute was won: the operator has the money.
        Undone = "undone",
    }
}

text_enum! {
    /// Why something that the processor shows does not agree with what is recorded here.
    Mismatch, "one of unknown_order, other_customer, other_amount, other_goods, other_currency, other_mode, other_payment, \
               unknown_payment, missing_payment, repeated_credit, unasked_credit, second_customer, second_subscription" {
        /// It names an order that does not exist.
        UnknownOrder = "unknown_order",
        /// A customer other than the order's paid it.
        OtherCustomer = "other_customer",
        /// Its amount differs from the order's.
        OtherAmount = "other_amount",
        /// What the page sold differs from the order.
        OtherGoods = "other_goods",
        /// Its currency differs from the order's.
        OtherCurrency = "other_currency",
        /// One of payment and order is in the processor's test mode, the other is not.
        OtherMode = "other_mode",
        /// Another payment has already paid its order.
        OtherPayment = "other_payment",
        /// A refund or dispute of a payment that is not in the ledger.
        UnknownPayment = "unknown_payment",
        /// It is in the ledger, but the processor does not have it.
        MissingPayment = "missing_payment",
        /// A change of a customer's credit that was made more than once.
        RepeatedCredit = "repeated_credit",
        /// A change of a customer's credit that this service did not ask for.
        UnaskedCredit = "unasked_credit",
        /// A second customer at the processor for one of ours.
        SecondCustomer = "second_customer",
        /// A second live subscription of a customer.
        SecondSubscription = "second_subscription",
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
