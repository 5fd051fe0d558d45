//! What a link in a mail is for, and how long it opens something.

use crate::wire::text_enum;

text_enum! {
    /// What the holder of a mailed link may do with it, once.
    LinkPurpose, "one of confirm_email, change_email, reset_password" {
        /// Confirm the address that a customer registered with.
        ConfirmEmail = "confirm_email",
        /// Put the confirmed address in the place of the one before.
        ChangeEmail = "change_email",
        /// Set a password without knowing the old one.
        ResetPassword = "reset_password",
    }
}

impl LinkPurpose {
    /// Seconds from the writing of the mail to the link's end.
    pub const fn lifetime_s(self) -> i64 {
        match self {
            Self::ConfirmEmail | Self::ChangeEmail => 24 * 3_600,
            Self::ResetPassword => 3_600,
        }
    }
}
