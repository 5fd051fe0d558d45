//! The rules for a new password.

use domain::common_passwords::{EarlyGuess, PasswordContext};
use domain::customer::Email;
use domain::field_error::FieldErrorKind;
use failures::FieldProblem;
use settings::Config;

/// The problem with a new password, if any; `field` is its name in the body, `email` the customer's
/// address, if it is known.
pub fn problem_of_new(
    config: &Config,
    field: &str,
    password: &str,
    email: Option<&Email>,
) -> Option<FieldProblem> {
    if !domain::customer::password_length_fits(password) {
        let is_short = password.chars().count() < *domain::customer::PASSWORD_CHARS.start();
        let kind = if is_short { FieldErrorKind::TooShort } else { FieldErrorKind::TooLong };
        let message = "The password must have 8 to 128 characters.";
        return Some(FieldProblem::new("body", field, kind, message));
    }
    let context = PasswordContext { brand: &config.brand.name, email };
    context.early_guess(password).map(|guess| {
        let message = match guess {
            EarlyGuess::Common => {
                "The password is a common one, which attackers try first. Choose another one."
            }
            EarlyGuess::Pattern => {
                "The password is a sequence or a repetition, which attackers try first. Choose another one."
            }
            EarlyGuess::OfContext => {
                "The password is little more than your email address or the name of the service. Choose another one."
            }
        };
        FieldProblem::new("body", field, FieldErrorKind::TooCommon, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_long_and_common_passwords_are_refused_in_full_sentences() {
        let config = Config::from_toml("[brand]\nname = \"Acme & Co\"").unwrap();
        let email = "ada@navy.example".parse().unwrap();
        let problem = |text: &str| problem_of_new(&config, "password", text, Some(&email));
        let kind = |text: &str| problem(text).map(|problem| problem.kind);

        assert_eq!(kind("password"), Some(FieldErrorKind::TooCommon));
        assert_eq!(kind("PassWord1"), Some(FieldErrorKind::TooCommon));
        assert_eq!(kind("acme & co"), Some(FieldErrorKind::TooCommon));
        assert_eq!(kind("ada@navy.example"), Some(FieldErrorKind::TooCommon));
        assert_eq!(kind("1234567"), Some(FieldErrorKind::TooShort));
        assert_eq!(kind(&"x".repeat(129)), Some(FieldErrorKind::TooLong));
        assert_eq!(kind(&"é1ü".repeat(42)), Some(FieldErrorKind::TooCommon));
        assert_eq!(kind("password of mine"), None);
        for refused in ["short", "password", "acme & co", "12345678"] {
            let problem = problem(refused).unwrap();
            assert_eq!(problem.loc, ["body", "password"]);
            assert!(problem.msg.starts_with("The password ") && problem.msg.ends_with('.'));
        }
    }
}
