//! `[brand]`: whose service it is, in emails and on pages.

use std::path::PathBuf;

use super::brand_color::{DARK, LIGHT};
use super::brand_logo::BrandLogo;
use super::problem::ConfigProblem;

/// The longest name, in characters.
const NAME_MAX: usize = 40;
/// The longest other line, in characters.
const LINE_MAX: usize = 200;

/// Whose service it is. Texts may be empty: then nothing is shown in their place.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct BrandSection {
    /// The name of the service.
    pub name: String,
    /// An image file. Empty: only the name is shown.
    pub logo_file: PathBuf,
    /// The color of buttons and links.
    pub accent: BrandAccent,
    /// Who operates the service.
    pub operator: String,
    /// Where customers get help by email.
    pub support_email: String,
    /// A page where customers get help.
    pub support_url: String,
    /// The terms of use.
    pub terms_url: String,
    /// The privacy policy.
    pub privacy_url: String,
    /// A page with the state of the service.
    pub status_url: String,
    /// One line at the top of all pages.
    pub announcement: String,
}

/// The color of buttons and links in each theme, as `#rrggbb`. Emails use that of the light one,
/// with white text on it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct BrandAccent {
    /// On light pages.
    pub light: String,
    /// On dark pages.
    pub dark: String,
}

impl BrandSection {
    /// The path of the logo below `http.public_base_url`; none without a logo.
    pub fn logo_path(&self) -> Option<&'static str> {
        (!self.logo_file.as_os_str().is_empty()).then_some("/console/logo")
    }

    /// The support address; none if there is none.
    pub fn support(&self) -> Option<&str> {
        (!self.support_email.is_empty()).then_some(self.support_email.as_str())
    }

    /// Reads the logo; none if there is none.
    pub fn logo(&self) -> Result<Option<BrandLogo>, ConfigProblem> {
        if self.logo_path().is_none() {
            return Ok(None);
        }
        BrandLogo::read(&self.logo_file)
            .map(Some)
            .map_err(|message| ConfigProblem::new("brand.logo_file", message))
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let mut problem =
            |key: &str, message: String| problems.push(ConfigProblem::new(key, message));
        if self.name.is_empty() || !is_line(&self.name, NAME_MAX) {
            problem("brand.name", format!("must be 1 to {NAME_MAX} characters on one line"));
        }
        for (key, text) in
            [("brand.operator", &self.operator), ("brand.announcement", &self.announcement)]
        {
            if !is_line(text, LINE_MAX) {
                problem(key, format!("must be at most {LINE_MAX} characters on one line"));
            }
        }
        if let Some(address) = self.support()
            && address.parse::<domain::customer::Email>().is_err()
        {
            let message = "must be empty or an address such as help@example.com";
            problem("brand.support_email", message.to_owned());
        }
        for (key, url) in self.links() {
            if !url.is_empty() && !is_web_address(url) {
                let message = "must be empty or an address such as https://example.com/terms";
                problem(key, message.to_owned());
            }
        }
        for (key, theme, color) in [
            ("brand.accent.light", &LIGHT, &self.accent.light),
            ("brand.accent.dark", &DARK, &self.accent.dark),
        ] {
            if let Err(message) = theme.check(color) {
                problem(key, message);
            }
        }
        problems.extend(self.logo().err());
    }

    const fn links(&self) -> [(&'static str, &String); 4] {
        [
            ("brand.support_url", &self.support_url),
            ("brand.terms_url", &self.terms_url),
            ("brand.privacy_url", &self.privacy_url),
            ("brand.status_url", &self.status_url),
        ]
    }
}

fn is_line(text: &str, max: usize) -> bool {
    text.chars().count() <= max && !text.chars().any(char::is_control)
}

/// An absolute address of a page, which a browser can open.
fn is_web_address(text: &str) -> bool {
    let uri = text.parse::<http::Uri>();
    uri.is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("https" | "http"))
            && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
    })
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn problems(toml: &str) -> Vec<String> {
        let config = Config::from_toml(&format!("[brand]\n{toml}")).unwrap();
        config.problems().into_iter().map(|problem| problem.key).collect()
    }

    #[test]
    fn wrong_values_are_problems() {
        let long = format!("announcement = \"{}\"", "a".repeat(201));
        for (toml, key) in [
            ("name = \"\"", "brand.name"),
            ("name = \"a\\nb\"", "brand.name"),
            (
                "name = \"A name of more than forty characters, which no sidebar has room for\"",
                "brand.name",
            ),
            ("operator = \"a\\tb\"", "brand.operator"),
            (long.as_str(), "brand.announcement"),
            ("support_email = \"help\"", "brand.support_email"),
            ("support_url = \"example.com/help\"", "brand.support_url"),
            ("terms_url = \"javascript:alert(1)\"", "brand.terms_url"),
            ("privacy_url = \"https://user@example.com/\"", "brand.privacy_url"),
            ("status_url = \"ftp://example.com/\"", "brand.status_url"),
            ("accent = { light = \"blue\", dark = \"#5fc0d5\" }", "brand.accent.light"),
            ("accent.dark = \"#12345\"", "brand.accent.dark"),
            ("accent.light = \"#ffffff;}\"", "brand.accent.light"),
            ("logo_file = \"no/such/logo.png\"", "brand.logo_file"),
        ] {
            assert_eq!(problems(toml), [key], "{toml}");
        }
    }

    #[test]
    fn a_whole_brand_is_accepted() {
        let toml = "name = \"Acme\"\noperator = \"Acme Ltd\"\nsupport_email = \"help@acme.example\"\n\
            support_url = \"https://acme.example/help\"\nterms_url = \"https://acme.example/terms\"\n\
            privacy_url = \"https://acme.example/privacy\"\nstatus_url = \"http://127.0.0.1:9/status\"\n\
            announcement = \"Maintenance on Sunday.\"\naccent.light = \"#aa0011\"";
        assert_eq!(problems(toml), [""; 0]);
    }
}
