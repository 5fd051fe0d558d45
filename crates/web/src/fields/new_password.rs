//! The rules for a new password.

use domain::common_passwords;
use domain::field_error::FieldErrorKind;
use failures::FieldProblem;

/// The problem with a new password, if any; `field` is its name in the body.
pub fn problem_of_new(field: &str, password: &str) -> Option<FieldProblem> {
    if !domain::customer::password_length_fits(password) {
        let is_short = password.chars().count() < *domain::customer::PASSWORD_CHARS.start();
        let kind = if is_short { FieldErrorKind::TooShort } else { FieldErrorKind::TooLong };
        return Some(FieldProblem::new("body", field, kind, "must have 8 to 128 characters"));
    }
    common_passwords::contains(password).then(|| {
        let message = "is a commonly used password; choose another";
        FieldProblem::new("body", field, FieldErrorKind::TooCommon, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_long_and_common_passwords_are_refused() {
        let kind = |text: &str| problem_of_new("password", text).map(|problem| problem.kind);

        assert_eq!(kind("password"), Some(FieldErrorKind::TooCommon));
        assert_eq!(kind("PassWord1"), Some(FieldErrorKind::TooCommon));
        assert_eq!(kind("1234567"), Some(FieldErrorKind::TooShort));
        assert_eq!(kind(&"x".repeat(129)), Some(FieldErrorKind::TooLong));
        assert_eq!(kind(&"é".repeat(128)), None);
        assert_eq!(kind("password of mine"), None);
    }
}
