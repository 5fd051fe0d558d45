//! Discounts: what comes off the price of what is bought.

use serde::Deserialize;

use super::{ExpandableObject, or_default};

/// A coupon that was applied to something.
#[derive(Debug, Clone, Deserialize)]
pub struct AppliedDiscount {
    /// `di_…`
    pub id: String,
    #[serde(default)]
    source: Option<DiscountSource>,
    #[serde(default)]
    coupon: Option<ExpandableObject<DiscountCoupon>>,
}

#[derive(Debug, Clone, Deserialize)]
struct DiscountSource {
    #[serde(default)]
    coupon: Option<ExpandableObject<DiscountCoupon>>,
}

/// What a discount is made from.
#[derive(Debug, Clone, Deserialize)]
pub struct DiscountCoupon {
    /// Its id, or the code that was chosen for it.
    pub id: String,
    /// The percent that come off; none: an amount comes off.
    #[serde(default)]
    pub percent_off: Option<f64>,
    /// `forever`, `once` or `repeating`.
    #[serde(default, deserialize_with = "or_default")]
    pub duration: String,
}

impl AppliedDiscount {
    /// The coupon's id.
    pub fn coupon_id(&self) -> Option<&str> {
        let of_source = self.source.as_ref().and_then(|source| source.coupon.as_ref());
        of_source.or(self.coupon.as_ref()).map(ExpandableObject::id)
    }
}
