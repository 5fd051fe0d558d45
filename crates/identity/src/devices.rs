//! Device cookies: a browser in which a customer's login succeeded is recognized there for a while,
//! so that wrong passwords from elsewhere do not lock it out.
//!
//! A cookie has an entry for each of the last customers of its browser: a random id of the browser,
//! when it was issued, and a signature. Nothing is stored, so every node accepts it. The signature
//! covers the customer and the hash of the password, which the entry does not contain: it names no
//! customer, and a new password ends every entry. It only decides which limits apply, and lets
//! nobody in.

use domain::id::CustomerId;
use domain::time::Timestamp;
use domain::token::{SecretToken, TokenHash};
use failures::Failure;
use store::customers::{Customer, PasswordHash};

use crate::IdentityState;

/// How long a browser is recognized after its last login, in seconds.
pub const RECOGNIZED_FOR_S: i64 = 90 * 86_400;
/// The maximum number of customers by whom one browser is recognized: the most recent ones.
const CUSTOMERS_MAX: usize = 4;
/// The purpose from which the signing key is derived.
const PURPOSE: &str = "creator-gateway device cookie";
/// Between the entries of a cookie.
const SEPARATOR: char = ':';

/// The customer of an entry.
#[derive(Clone, Copy)]
pub(crate) struct DeviceOwner<'a> {
    pub(crate) customer: CustomerId,
    pub(crate) password: &'a PasswordHash,
}

/// What a browser sent as its device cookie. Only its format is checked.
pub(crate) struct DeviceCookie<'a> {
    identity: &'a IdentityState,
    entries: Vec<DeviceEntry<'a>>,
}

#[derive(Clone, Copy)]
struct DeviceEntry<'a> {
    /// The whole entry.
    text: &'a str,
    /// The random id of the browser.
    id: &'a str,
    issued_at_s: i64,
    signature: &'a str,
}

impl<'a> DeviceOwner<'a> {
    pub(crate) const fn of(customer: &'a Customer) -> Self {
        Self { customer: customer.id, password: &customer.password_hash }
    }

    /// What is signed for this customer.
    fn claim(self, id: &str, issued_at_s: i64) -> String {
        format!("v1\n{}\n{id}\n{issued_at_s}\n{}", self.customer, self.password.0)
    }
}

impl<'a> DeviceCookie<'a> {
    pub(crate) fn read(identity: &'a IdentityState, sent: Option<&'a str>) -> Self {
        let entries = sent.unwrap_or_default().split(SEPARATOR).filter_map(DeviceEntry::parse);
        Self { identity, entries: entries.take(CUSTOMERS_MAX).collect() }
    }

    /// The browser, if this customer recognizes it.
    pub(crate) fn device_of(&self, owner: DeviceOwner<'_>) -> Option<TokenHash> {
        let id = SecretToken::parse(self.entry_of(owner)?.id).ok()?;
        Some(id.hash())
    }

    /// The cookie after a successful login of `owner`. A browser that was recognized `before`, with
    /// the previous password, keeps its id.
    pub(crate) fn renewed(
        &self,
        before: DeviceOwner<'_>,
        owner: DeviceOwner<'_>,
    ) -> Result<String, Failure> {
        let identity = self.identity;
        let replaced = self.entry_of(before);
        let id = replaced.map_or_else(
            || SecretToken::new(identity.random.bytes()).expose().to_owned(),
            |entry| entry.id.to_owned(),
        );
        let issued_at_s = identity.clock.now().unix_seconds();
        let signature = identity.vault.keyring().sign(PURPOSE, &owner.claim(&id, issued_at_s));
        let signature =
            signature.ok_or_else(|| Failure::Internal("no key signs device cookies".to_owned()))?;
        let mut cookie = format!("{id}.{issued_at_s}.{signature}");
        let others =
            self.entries.iter().filter(|entry| replaced.is_none_or(|old| old.text != entry.text));
        for entry in others.take(CUSTOMERS_MAX - 1) {
            cookie.push(SEPARATOR);
            cookie.push_str(entry.text);
        }
        Ok(cookie)
    }

    fn entry_of(&self, owner: DeviceOwner<'_>) -> Option<DeviceEntry<'a>> {
        let (now, keyring) = (self.identity.clock.now(), self.identity.vault.keyring());
        let is_owners = |entry: &&DeviceEntry<'_>| {
            let claim = owner.claim(entry.id, entry.issued_at_s);
            entry.is_recent(now) && keyring.is_signed(PURPOSE, &claim, entry.signature)
        };
        self.entries.iter().find(is_owners).copied()
    }
}

impl<'a> DeviceEntry<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (claim, signature) = text.rsplit_once('.')?;
        let (id, issued_at) = claim.rsplit_once('.')?;
        SecretToken::parse(id).ok()?;
        Some(Self { text, id, issued_at_s: issued_at.parse().ok()?, signature })
    }

    fn is_recent(&self, now: Timestamp) -> bool {
        now.unix_seconds() < self.issued_at_s.saturating_add(RECOGNIZED_FOR_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_has_exactly_three_parts() {
        let token = SecretToken::new([7; 32]);
        let id = token.expose();

        let text = format!("{id}.17.abc");
        let entry = DeviceEntry::parse(&text).unwrap();

        assert_eq!((entry.id, entry.issued_at_s, entry.signature), (id, 17, "abc"));
        for wrong in
            ["", "a", "a.1.b", &format!("{id}.x.b"), &format!("{id}.1"), &format!(".{text}")]
        {
            assert!(DeviceEntry::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn entry_is_recent_for_90_days() {
        let token = SecretToken::new([7; 32]);
        let text = format!("{}.100.abc", token.expose());
        let entry = DeviceEntry::parse(&text).unwrap();
        let at = |seconds: i64| Timestamp::from_unix_micros(seconds * 1_000_000);

        assert!(entry.is_recent(at(100)) && entry.is_recent(at(100 + RECOGNIZED_FOR_S - 1)));
        assert!(!entry.is_recent(at(100 + RECOGNIZED_FOR_S)));
    }
}
