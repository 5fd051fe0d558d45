//! Customers: the form of an email address and of a password, and the state of the trial.

use sha2::{Digest, Sha256};

use crate::id::CustomerId;
use crate::wire::{text_enum, written_as_text};

text_enum! {
    /// The state of a customer's trial credits.
    TrialState, "one of none, pending, granted" {
        /// Created by staff, without a trial.
        None = "none",
        /// Started at registration; granted when the address is confirmed.
        Pending = "pending",
        /// Granted; a customer gets only one trial.
        Granted = "granted",
    }
}

text_enum! {
    /// What a customer can do at the moment.
    CustomerState, "one of active, unconfirmed, suspended, closed, erased" {
        /// Everything; its address is confirmed.
        Active = "active",
        /// Everything; its address is not confirmed yet.
        Unconfirmed = "unconfirmed",
        /// Nothing, until the operator resumes it.
        Suspended = "suspended",
        /// Nothing: it was closed.
        Closed = "closed",
        /// Nothing: what identified a person was removed.
        Erased = "erased",
    }
}

/// An email address in the one form that is stored: ASCII, lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Email(String);

/// A text that is not an email address we accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an address such as ada@example.com, in ASCII, of at most 254 characters")]
pub struct InvalidEmail;

impl Email {
    /// The canonical address.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after the `@`.
    pub fn domain(&self) -> &str {
        self.0.rsplit_once('@').map_or("", |(_, domain)| domain)
    }

    /// SHA-256 of the address without a `+tag`, and at Google's mail without dots and under one
    /// domain: the same for all addresses that share a mailbox.
    pub fn mailbox_hash(&self) -> [u8; 32] {
        Sha256::digest(self.mailbox().as_bytes()).into()
    }

    fn mailbox(&self) -> String {
        match self.0.rsplit_once('@') {
            Some((local, domain)) => {
                let user = local.split('+').next().filter(|user| !user.is_empty()).unwrap_or(local);
                if matches!(domain, "gmail.com" | "googlemail.com") {
                    return format!("{}@gmail.com", user.replace('.', ""));
                }
                format!("{user}@{domain}")
            }
            None => self.0.clone(),
        }
    }
}

impl std::str::FromStr for Email {
    type Err = InvalidEmail;

    /// Spellings that differ only in letter case are the same address.
    fn from_str(text: &str) -> Result<Self, InvalidEmail> {
        let (local, domain) = text.rsplit_once('@').ok_or(InvalidEmail)?;
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        let plain = |part: &str| {
            !part.contains(['"', '(', ')', ',', ':', ';', '<', '>', '[', '\\', ']', '@'])
        };
        let dotted = |part: &str| part.split('.').all(|label| !label.is_empty());
        let host = domain.split('.').all(|label| {
            !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        });
        let named = domain.contains('.') && dotted(domain) && host;
        let sized = text.len() <= 254 && local.len() <= 64;
        if printable && plain(local) && dotted(local) && named && sized {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(InvalidEmail)
        }
    }
}

written_as_text!(Email);

/// A customer, by id or email address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CustomerRef {
    /// By id.
    Id(CustomerId),
    /// By email address.
    Email(Email),
}

impl std::str::FromStr for CustomerRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('@') {
            return text.parse().map(Self::Email).map_err(|error| format!("{error}"));
        }
        let message = |_| "expected the id of a customer (cus_…) or an email address".to_owned();
        text.parse().map(Self::Id).map_err(message)
    }
}

impl std::fmt::Display for CustomerRef {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => id.fmt(formatter),
            Self::Email(email) => formatter.write_str(email.as_str()),
        }
    }
}

impl serde::Serialize for CustomerRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for CustomerRef {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The shortest and the longest password, in characters.
pub const PASSWORD_CHARS: std::ops::RangeInclusive<usize> = 8..=128;

/// Whether a password has an accepted length. It is never trimmed, folded or truncated.
pub fn password_length_fits(password: &str) -> bool {
    PASSWORD_CHARS.contains(&password.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_ignore_letter_case() {
        let address = "Ada.Lovelace+x@Example.COM".parse::<Email>();

        assert_eq!(address.as_ref().map(Email::as_str), Ok("ada.lovelace+x@example.com"));
    }

    #[test]
    fn addresses_of_one_mailbox_share_it() {
        let mailbox = |text: &str| text.parse::<Email>().map(|email| email.mailbox());

        assert_eq!(mailbox("Ada+1@example.com"), Ok("ada@example.com".to_owned()));
        assert_eq!(mailbox("ada+1+2@example.com"), Ok("ada@example.com".to_owned()));
        assert_eq!(mailbox("ada@example.com"), Ok("ada@example.com".to_owned()));
        assert_eq!(mailbox("+ada@example.com"), Ok("+ada@example.com".to_owned()));
        assert_eq!(mailbox("a.d.a@example.com"), Ok("a.d.a@example.com".to_owned()));
        for same in
            ["ada@gmail.com", "a.da+x@gmail.com", "ADA@googlemail.com", "a.d.a@googlemail.com"]
        {
            assert_eq!(mailbox(same), Ok("ada@gmail.com".to_owned()), "{same}");
        }
        let hash = |text: &str| text.parse::<Email>().map(|email| email.mailbox_hash());
        assert_eq!(hash("ada+1@example.com"), hash("ada@example.com"));
        assert_ne!(hash("adb@example.com"), hash("ada@example.com"));
        assert_eq!(
            "a@x.example".parse::<Email>().map(|one| one.domain().to_owned()),
            Ok("x.example".to_owned())
        );
    }

    #[test]
    fn texts_that_are_not_plain_addresses_are_refused() {
        let long = format!("{}@example.com", "a".repeat(65));
        for text in [
            "",
            "ada",
            "@x.y",
            "ada@",
            "ada@x",
            "a@b@x.y",
            "ada@x..y",
            ".ada@x.y",
            "ada@-x.y",
            "ada@x.y\r\nBcc: e@v.il",
            "ada lovelace@x.y",
            "adà@x.y",
            "ada@x.y,b@x.y",
            &long,
        ] {
            assert_eq!(text.parse::<Email>(), Err(InvalidEmail), "{text:?}");
        }
    }

    #[test]
    fn password_length_is_counted_in_characters() {
        assert!(!password_length_fits("1234567"));
        assert!(password_length_fits("12345678"));
        assert!(password_length_fits(&"é".repeat(128)));
        assert!(!password_length_fits(&"é".repeat(129)));
    }
}
