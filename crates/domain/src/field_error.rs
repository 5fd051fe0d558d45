//! What can be wrong with a field of a request: the kinds of validation errors.

use crate::wire::text_enum;

text_enum! {
    /// The kind of mistake in a field. Programs match it, whatever the field and the route.
    FieldErrorKind, "a kind of validation error" {
        /// A required field is absent.
        Missing = "missing",
        /// The request has no such field or query parameter.
        UnknownField = "unknown_field",
        /// The field is given more than once.
        Duplicate = "duplicate",
        /// Another JSON type is needed, or a query parameter is not a number.
        WrongType = "wrong_type",
        /// A number, an amount or a time outside its limits.
        OutOfRange = "out_of_range",
        /// A text or a list below its minimum length.
        TooShort = "too_short",
        /// A text, a list or an object above its maximum length.
        TooLong = "too_long",
        /// A text without the required format.
        BadFormat = "bad_format",
        /// A value that exists but cannot be used here.
        NotAllowed = "not_allowed",
        /// The name of something that does not exist.
        NotFound = "not_found",
        /// A password that attackers try first.
        TooCommon = "too_common",
        /// An `Idempotency-Key` that belongs to another request.
        AlreadyUsed = "already_used",
        /// A body that cannot be read at all.
        Malformed = "malformed",
    }
}

impl FieldErrorKind {
    /// What it means, for the error reference.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Missing => "a required field is absent",
            Self::UnknownField => "the request has no such field or query parameter",
            Self::Duplicate => "the field is given more than once",
            Self::WrongType => "the value has the wrong JSON type, or is not a number",
            Self::OutOfRange => "a number, amount or time is outside its limits",
            Self::TooShort => "a text or list is too short",
            Self::TooLong => "a text, list or object is too long",
            Self::BadFormat => "a text is not written the way the field needs it",
            Self::NotAllowed => "the value cannot be used here",
            Self::NotFound => "the value names something that does not exist",
            Self::TooCommon => "the password is one that attackers try first",
            Self::AlreadyUsed => "the `Idempotency-Key` belongs to another request",
            Self::Malformed => "the body cannot be read",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_name_and_meaning() {
        let mut words: Vec<_> = FieldErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
        let mut meanings: Vec<_> = FieldErrorKind::ALL.iter().map(|kind| kind.meaning()).collect();
        words.sort_unstable();
        words.dedup();
        meanings.sort_unstable();
        meanings.dedup();

        assert_eq!((words.len(), meanings.len()), (13, 13));
        assert!(
            words.iter().all(|word| word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_')))
        );
    }
}
