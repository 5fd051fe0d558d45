//! The purpose of an emailed link, and how long it is valid.

use crate::wire::text_enum;

text_enum! {
    /// What the holder of an emailed link may do with it, once.
    LinkPurpose, "one of confirm_email, change_email, reset_password" {
        /// Confirm the address that a customer registered with.
        ConfirmEmail = "confirm_email",
        /// Replace the customer's address with the confirmed one.
        ChangeEmail = "change_email",
        /// Set a password without knowing the old one.
        ResetPassword = "reset_password",
    }
}

impl LinkPurpose {
    /// How long the link is valid after the email was written, in seconds.
    pub const fn lifetime_s(self) -> i64 {
        match self {
            Self::ConfirmEmail | Self::ChangeEmail => 24 * 3_600,
            Self::ResetPassword => 3_600,
        }
    }
}
