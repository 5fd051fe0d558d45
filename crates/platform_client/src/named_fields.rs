//! The credentials that templates name, compared with those that the platform's accounts have.
//!
//! A name that no account can have would leave its header out of every request, without a word.

use http::HeaderName;
use outbound::SettingsProblem;

use super::settings::{CredentialField, TargetSettings};
use super::template::TextTemplate;
use super::verify::IdentityCheck;

/// Checks every template of the settings; a problem says which name is unknown and which are known.
pub(super) fn check(
    settings: &TargetSettings,
    headers: &[(HeaderName, TextTemplate)],
    identity: Option<&IdentityCheck>,
    problems: &mut Vec<SettingsProblem>,
) {
    let Some(known) = &settings.credential_fields else { return };
    for (name, template) in headers {
        for field in template.fields().filter(|field| !is_known(known, field)) {
            let header = |(other, _): &(String, String)| other.eq_ignore_ascii_case(name.as_str());
            let index = settings.headers.iter().position(header).unwrap_or_default();
            let what = format!("the header {name} names {{{field}}}");
            let message = unknown(settings, known, &what);
            problems.push(SettingsProblem::new(format!("headers[{index}].value"), message));
        }
    }
    let of_identity = identity.into_iter().flat_map(IdentityCheck::fields);
    for (key, field) in of_identity.filter(|(_, field)| !is_known(known, field)) {
        let message = unknown(settings, known, &format!("it names {{{field}}}"));
        problems.push(SettingsProblem::new(key, message));
    }
}

/// The same for credentials that are named elsewhere, with the keys that name them.
pub(super) fn check_others(
    settings: &TargetSettings,
    fields: &[(String, &str)],
    problems: &mut Vec<SettingsProblem>,
) {
    let Some(known) = &settings.credential_fields else { return };
    for (key, field) in fields.iter().filter(|(_, field)| !is_known(known, field)) {
        let message = unknown(settings, known, &format!("it names {{{field}}}"));
        problems.push(SettingsProblem::new(key, message));
    }
}

fn is_known(known: &[CredentialField], name: &str) -> bool {
    known.iter().any(|field| {
        let rest = name.strip_prefix(field.name.as_str());
        match rest {
            Some("") => !field.has_members,
            Some(member) => field.has_members && member.starts_with('.'),
            None => false,
        }
    })
}

fn unknown(settings: &TargetSettings, known: &[CredentialField], what: &str) -> String {
    let written = |field: &CredentialField| {
        if field.has_members { format!("{}.NAME", field.name) } else { field.name.clone() }
    };
    let known: Vec<String> = known.iter().map(written).collect();
    let (platform, known) = (settings.platform, known.join(", "));
    if known.is_empty() {
        return format!(
            "{what}, but the catalogue of {platform} declares no credentials; add [[auth_fields]] \
             to it"
        );
    }
    format!(
        "{what}, which no account of {platform} has; known are {known} and, in headers, call_id"
    )
}

#[cfg(test)]
mod tests {
    use super::super::checked::CheckedSettings;
    use super::super::settings::sample::settings;
    use super::*;

    fn field(name: &str, has_members: bool) -> CredentialField {
        CredentialField { name: name.to_owned(), has_members }
    }

    fn with_header(value: &str) -> TargetSettings {
        let mut settings = settings();
        let declared = [field("token", false), field("user_agent", false), field("extra", true)];
        settings.credential_fields = Some(declared.to_vec());
        settings.headers.push(("X-Further".to_owned(), value.to_owned()));
        settings
    }

    #[test]
    fn a_credential_that_no_account_has_is_refused_with_the_known_names() {
        for (value, name) in [
            ("Bearer {tokn}", "{tokn}"),
            ("{extra}", "{extra}"),
            ("{extra_x}", "{extra_x}"),
            ("{token.x}", "{token.x}"),
            ("{call_id} {other.x}", "{other.x}"),
        ] {
            let problems = CheckedSettings::new(&with_header(value)).err().unwrap();

            let [problem] = &problems[..] else { panic!("{problems:?}") };
            assert_eq!(problem.key, "headers[3].value");
            let expected = format!(
                "the header x-further names {name}, which no account of platform_beta has; known are token, \
                 user_agent, extra.NAME and, in headers, call_id"
            );
            assert_eq!(problem.message, expected);
        }
        for value in ["{token}", "{extra.bc-id}", "{call_id}", "fixed"] {
            assert!(CheckedSettings::new(&with_header(value)).is_ok(), "{value}");
        }
    }

    #[test]
    fn a_platform_without_credentials_has_none_that_could_be_named() {
        let mut settings = with_header("Bearer {token}");
        settings.headers.truncate(1);
        settings.credential_fields = Some(Vec::new());

        let problems = CheckedSettings::new(&settings).err().unwrap();

        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(problem.key, "headers[0].value");
        assert!(problem.message.ends_with("add [[auth_fields]] to it"), "{}", problem.message);
    }

    #[test]
    fn the_identity_check_names_known_credentials_too() {
        let mut settings = with_header("fixed");
        settings.verify.path = "user/{account_id}".to_owned();
        settings.verify.equals_field = Some("acount_id".to_owned());

        let problems = CheckedSettings::new(&settings).err().unwrap();

        let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, ["verify_route.path", "verify_route.equals_field"]);
    }
}
