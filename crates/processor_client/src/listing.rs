//! Which objects of a kind a list holds, page by page, newest first.

use super::form::FormParameters;

/// The most objects of one page.
const PAGE: u8 = 100;

/// What a list is limited to. Filters that the kind of object does not have are refused by the
/// processor.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListFilter<'a> {
    /// Only those of this customer of the processor.
    pub customer: Option<&'a str>,
    /// Only those of this subscription.
    pub subscription: Option<&'a str>,
    /// Only those of this payment intent.
    pub payment_intent: Option<&'a str>,
    /// Only those of this invoice.
    pub invoice: Option<&'a str>,
    /// Only those in this state; `all` where ended ones are left out otherwise.
    pub status: Option<&'a str>,
    /// Only those made at this time or later: seconds since 1970.
    pub created_from: Option<i64>,
    /// Those after this id: the last one of the page before.
    pub after: Option<&'a str>,
    /// How many, 1 to 100; none: 100.
    pub limit: Option<u8>,
}

impl ListFilter<'_> {
    pub(super) fn form(&self) -> FormParameters {
        FormParameters::new()
            .with("limit", self.limit.unwrap_or(PAGE).clamp(1, PAGE))
            .with_some("customer", self.customer)
            .with_some("subscription", self.subscription)
            .with_some("payment_intent", self.payment_intent)
            .with_some("invoice", self.invoice)
            .with_some("status", self.status)
            .with_some("created[gte]", self.created_from)
            .with_some("starting_after", self.after)
    }
}
