//! Links to the page on which a customer confirms a payment that the bank asks about.
//!
//! A link is signed and not stored, so every node accepts it. It leads to the payment of one order
//! until that payment is cancelled, and only while the address it was sent to is the customer's.
//! Its holder can pay the order with the customer's card, if the bank agrees, and nothing else.

use domain::customer::Email;
use domain::id::OrderId;
use domain::time::{MICROS_PER_SECOND, Timestamp};
use failures::Failure;
use store::orders::{self, Order};

use crate::EmailsState;

/// The purpose from which the signing key is derived.
const PURPOSE: &str = "creator-gateway payment link";

/// The content of a link's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    order: OrderId,
    /// When it expires, in whole seconds since 1970.
    ends_at_s: i64,
}

/// The address of the page for an order, valid until `until`, to be sent to `email`.
pub fn url(
    emails: &EmailsState,
    order: OrderId,
    until: Timestamp,
    email: &Email,
) -> Option<String> {
    let ends_at_s = until.unix_seconds();
    let text = Claim { order, ends_at_s }.text(email);
    let signature = emails.vault.keyring().sign(PURPOSE, &text)?;
    let base = emails.config.http.public_base_url.trim_end_matches('/');
    Some(format!("{base}/console/pay?token={order}.{ends_at_s}.{signature}"))
}

/// The order of a token.
pub async fn open(emails: &EmailsState, token: &str) -> Result<Order, Failure> {
    let (claim, signature) = Claim::parse(token).ok_or(Failure::UnknownLink)?;
    let order = orders::find_any(&emails.store, claim.order).await?;
    let order = order.ok_or(Failure::UnknownLink)?;
    let customer = store::customers::find_by_id(&emails.store, order.customer).await?;
    let customer = customer.filter(|customer| customer.disabled_at.is_none());
    let email = customer.ok_or(Failure::UnknownLink)?.email;
    if !emails.vault.keyring().is_signed(PURPOSE, &claim.text(&email), signature) {
        return Err(Failure::UnknownLink);
    }
    let ends_at = Timestamp::from_unix_micros(claim.ends_at_s.saturating_mul(MICROS_PER_SECOND));
    if emails.clock.now() < ends_at { Ok(order) } else { Err(Failure::LinkExpired) }
}

impl Claim {
    fn parse(token: &str) -> Option<(Self, &str)> {
        let (claim, signature) = token.rsplit_once('.')?;
        let (order, ends_at) = claim.rsplit_once('.')?;
        Some((Self { order: order.parse().ok()?, ends_at_s: ends_at.parse().ok()? }, signature))
    }

    fn text(&self, email: &Email) -> String {
        let Self { order, ends_at_s } = self;
        format!("v1\n{order}\n{ends_at_s}\n{email}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_has_exactly_three_parts() {
        let order = OrderId::new(Timestamp::from_unix_micros(1), [7; 10]);

        let parsed = Claim::parse(&format!("{order}.17.abc"))
            .map(|(claim, sign)| (claim.order, claim.ends_at_s, sign.len()));
        assert_eq!(parsed, Some((order, 17, 3)));
        for token in
            ["", "a", "a.b", "a.b.c", ".1.c", &format!("{order}.x.c"), &format!("{order}.17")]
        {
            assert!(Claim::parse(token).is_none(), "{token}");
        }
    }
}
