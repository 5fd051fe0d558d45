//! What a new password must be.

use domain::common_passwords;
use domain::field_error::FieldErrorKind;
use failures::FieldProblem;

/// What keeps a text from being a new password; `field` is its name in the body.
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
    fn passwords_that_are_guessed_first_are_refused_in_any_letter_case() {
        let kind = |text: &str| problem_of_new("password", text).map(|problem| problem.kind);

        assert_eq!(kind("password"), Some(FieldErrorKind::TooCommon));
        assert_eq!(kind("PassWord1"), Some(FieldErrorKind::TooCommon));
        assert_eq!(kind("1234567"), Some(FieldErrorKind::TooShort));
        assert_eq!(kind(&"x".repeat(129)), Some(FieldErrorKind::TooLong));
        assert_eq!(kind(&"é".repeat(128)), None);
        assert_eq!(kind("password of mine"), None);
    }
}
