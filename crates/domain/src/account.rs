//! Accounts: creator accounts on a platform, connected by a customer.

use crate::wire::{text_enum, written_as_text};

text_enum! {
    /// What a connected account can be used for.
    AccountState, "one of active, inactive, reconnect_needed" {
        /// Calls are forwarded.
        Active = "active",
        /// Over the limit of the plan, or switched off: stored, but its calls are refused.
        Inactive = "inactive",
        /// The platform refused the credentials. Calls are still forwarded; importing the account
        /// again repairs it.
        ReconnectNeeded = "reconnect_needed",
    }
}

text_enum! {
    /// The state that a customer asks for.
    WantedState, "one of active, inactive" {
        /// In use, in a slot.
        Active = "active",
        /// Credentials kept, but without a slot.
        Inactive = "inactive",
    }
}

text_enum! {
    /// Why an account is inactive.
    InactiveReason, "one of no_free_slot, switched_off" {
        /// Over the limit of the plan; it becomes active by itself when a slot is free.
        NoFreeSlot = "no_free_slot",
        /// Its customer switched it off; it stays inactive until the customer switches it on.
        SwitchedOff = "switched_off",
    }
}

/// Words that our own paths use where an account's id would be.
pub const RESERVED_IDS: &[&str] = &[
    "accounts",
    "admin",
    "audit",
    "auth",
    "billing",
    "connect",
    "console",
    "docs",
    "exports",
    "health",
    "media",
    "native",
    "notices",
    "platforms",
    "signup",
    "support",
    "support-access",
    "whoami",
];

/// The longest id that a customer may choose, in bytes.
pub const CREATOR_ID_BYTES_MAX: usize = 64;

/// The id of an account, chosen by the customer who connects it and unique for that customer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CreatorId(String);

/// Why a text cannot be the id of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCreatorId {
    /// Empty, or too long.
    #[error("must have 1 to 64 characters")]
    Length,
    /// A character outside the allowed set.
    #[error("may hold letters, digits, `_`, `.` and `-` only")]
    Character,
    /// `.`, `..`, or a word that is part of this service's own paths.
    #[error("is a reserved word; choose another")]
    Reserved,
}

impl CreatorId {
    /// The id as the customer chose it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for CreatorId {
    type Err = InvalidCreatorId;

    fn from_str(text: &str) -> Result<Self, InvalidCreatorId> {
        if text.is_empty() || text.len() > CREATOR_ID_BYTES_MAX {
            return Err(InvalidCreatorId::Length);
        }
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)) {
            return Err(InvalidCreatorId::Character);
        }
        let reserved = RESERVED_IDS.iter().any(|word| word.eq_ignore_ascii_case(text));
        if matches!(text, "." | "..") || reserved {
            return Err(InvalidCreatorId::Reserved);
        }
        Ok(Self(text.to_owned()))
    }
}

written_as_text!(CreatorId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_may_contain_letters_digits_and_three_marks() {
        for text in ["a", "Ada_1", "x.y-z", &"k".repeat(64)] {
            assert_eq!(text.parse::<CreatorId>().as_ref().map(CreatorId::as_str), Ok(text));
        }
    }

    #[test]
    fn ids_that_could_be_mistaken_for_part_of_a_path_are_refused() {
        let cases = [
            ("", InvalidCreatorId::Length),
            (&"k".repeat(65), InvalidCreatorId::Length),
            ("a/b", InvalidCreatorId::Character),
            ("a b", InvalidCreatorId::Character),
            ("é", InvalidCreatorId::Character),
            (".", InvalidCreatorId::Reserved),
            ("..", InvalidCreatorId::Reserved),
            ("billing", InvalidCreatorId::Reserved),
            ("Exports", InvalidCreatorId::Reserved),
        ];
        for (text, problem) in cases {
            assert_eq!(text.parse::<CreatorId>(), Err(problem), "{text:?}");
        }
    }
}
