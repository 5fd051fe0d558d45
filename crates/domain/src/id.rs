//! Identifiers: a prefix that says what they identify, and a body that sorts by the time of
//! creation.
//!
//! The body is a UUID of version 7 (RFC 9562) in 32 lower-case hexadecimal digits. Callers above
//! the store create ids from a time and random bytes.

use crate::time::Timestamp;

/// A word that is not one of those expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct UnknownWord {
    /// The words that are accepted, for people.
    pub expected: &'static str,
}

/// An id that does not have the format of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an id that starts with `{prefix}` and ends with 32 hexadecimal digits")]
pub struct MalformedId {
    /// The prefix that ids of this kind have.
    pub prefix: &'static str,
}

macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident = $prefix:literal $(or $former:literal)?,)+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(uuid::Uuid);

        impl $name {
            /// The prefix of every id of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// Makes the id of something created at `now`.
            pub fn new(now: Timestamp, random: [u8; 10]) -> Self {
                Self(uuid::Builder::from_unix_timestamp_millis(now.unix_millis(), &random).into_uuid())
            }

            /// The UUID, without the prefix.
            pub const fn bytes(self) -> [u8; 16] {
                self.0.into_bytes()
            }

            /// The id with this UUID.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(uuid::Uuid::from_bytes(bytes))
            }

            /// When it was made, to the millisecond.
            pub fn made_at(self) -> Option<Timestamp> {
                let (seconds, nanos) = self.0.get_timestamp()?.to_unix();
                let micros = i64::try_from(seconds).ok()?.checked_mul(1_000_000)?;
                Some(Timestamp::from_unix_micros(micros.checked_add(i64::from(nanos / 1_000))?))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                // Written to the buffer in one piece: each call formats ids several times.
                let mut text = [0; $prefix.len() + uuid::fmt::Simple::LENGTH];
                let (prefix, body) = text.split_at_mut($prefix.len());
                prefix.copy_from_slice($prefix.as_bytes());
                self.0.simple().encode_lower(body);
                formatter.write_str(std::str::from_utf8(&text).map_err(|_| std::fmt::Error)?)
            }
        }

        impl std::str::FromStr for $name {
            type Err = MalformedId;

            fn from_str(text: &str) -> Result<Self, MalformedId> {
                let body = parse(text, $prefix)$(.or_else(|| parse(text, $former)))?;
                body.map(Self).ok_or(MalformedId { prefix: $prefix })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

ids! {
    /// A customer, who registers and pays.
    CustomerId = "cus_",
    /// An API key of a customer; it survives the rotation of its secret.
    KeyId = "key_",
    /// One native request, from its hold to its end.
    CallId = "call_",
    /// One HTTP request to this service, in responses and logs.
    RequestId = "req_",
    /// One change of a customer's credits that is not a call.
    EntryId = "ent_",
    /// One entry of the audit list. Entries of earlier versions have the prefix of ledger entries.
    AuditId = "aud_" or "ent_",
    /// One attempt to carry out a request that has an `Idempotency-Key`.
    RunId = "run_",
    /// One running node among those that share a database.
    NodeId = "node_",
    /// A data key that seals one customer's credentials.
    DataKeyId = "dek_",
    /// One login of a customer in a browser.
    SessionId = "ses_",
    /// A job, written in the transaction that makes it necessary.
    JobId = "job_",
    /// One purchase of a credit pack, created before the processor hears of it.
    OrderId = "ord_",
    /// One change of slots or of the plan, created before the processor hears of it.
    ChangeId = "chg_",
    /// One offer to subscribe on the processor's page.
    OfferId = "off_",
    /// One grant of credits, and what happens to it.
    LotId = "lot_",
    /// One export; `job_id` in paths and records.
    ExportId = "exp_",
}

impl EntryId {
    /// The id of entry `number` (from 0) of those that are written together. They sort in that
    /// order.
    #[must_use]
    pub const fn nth(self, number: u64) -> Self {
        const RANDOM: u64 = (1 << 62) - 1;
        let (high, low) = self.0.as_u64_pair();
        let random = (low & RANDOM).wrapping_add(number) & RANDOM;
        Self(uuid::Uuid::from_u64_pair(high, (low & !RANDOM) | random))
    }
}

impl EntryId {
    /// The id of the entry that gives back what a call was charged.
    #[must_use]
    pub const fn of_call(call: CallId) -> Self {
        Self(call.0)
    }
}

impl LotId {
    /// The id of the lot that a ledger entry creates.
    pub const fn of(entry: EntryId) -> Self {
        Self(entry.0)
    }
}

/// Accepts the canonical form only: an id has one spelling, so ids can be compared as text.
fn parse(text: &str, prefix: &str) -> Option<uuid::Uuid> {
    let body = text.strip_prefix(prefix)?;
    let canonical =
        body.len() == 32 && body.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if canonical { uuid::Uuid::try_parse(body).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_a_round_trip_as_text_and_as_bytes() {
        let id = KeyId::new(Timestamp::from_unix_micros(1_790_000_000_000_000), [7; 10]);

        let text = id.to_string();

        assert!(text.starts_with("key_") && text.len() == 36, "{text}");
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(KeyId::from_bytes(id.bytes()), id);
    }

    #[test]
    fn ids_sort_by_creation_time() {
        let early = CallId::new(Timestamp::from_unix_micros(1_000_000), [255; 10]);
        let late = CallId::new(Timestamp::from_unix_micros(2_000_000), [0; 10]);

        assert!(early < late);
        assert!(early.to_string() < late.to_string());
    }

    #[test]
    fn ids_of_entries_written_together_sort_in_their_order() {
        let first = EntryId::new(Timestamp::from_unix_micros(1_000_000), [1; 10]);

        let ids = [first.nth(0), first.nth(1), first.nth(300)];

        assert_eq!(ids[0], first);
        assert!(ids.is_sorted() && ids[1] != ids[2]);
        assert!(ids[2].to_string().parse::<EntryId>().is_ok());
    }

    #[test]
    fn audit_ids_accept_the_prefix_of_earlier_versions_and_are_written_with_their_own() {
        let entry = EntryId::new(Timestamp::from_unix_micros(1_000_000), [1; 10]);

        let audit: AuditId = entry.to_string().parse().unwrap();

        assert_eq!(audit.to_string(), entry.to_string().replace("ent_", "aud_"));
        assert_eq!(audit.to_string().parse(), Ok(audit));
        assert!(audit.to_string().parse::<EntryId>().is_err());
    }

    #[test]
    fn ids_of_another_kind_or_spelling_are_refused() {
        let id = CustomerId::new(Timestamp::from_unix_micros(5_000_000), [3; 10]).to_string();

        assert!(id.parse::<KeyId>().is_err());
        assert!(id.to_uppercase().parse::<CustomerId>().is_err());
        assert!(format!("{id}0").parse::<CustomerId>().is_err());
        assert!("cus_".parse::<CustomerId>().is_err());
    }
}
