//! `[mail]`: the server or folder that emails go to, and their sender.

use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::customer::Email;
use domain::hosts::is_loopback_host;
use http::uri::Authority;
use mail::{MailDestination, MailSecurity, MailSettings, Mailer, SmtpServer};
use secrecy::{ExposeSecret, SecretString};

use super::Config;
use super::problem::ConfigProblem;

/// The longest allowed timeout of one email, in milliseconds: shorter than a job may run.
const TIMEOUT_MS_MAX: u64 = 50_000;

/// Where emails are sent.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct MailSection {
    /// `smtps://…`, `smtp+starttls://…`, `smtp://…` on loopback, or `file:FOLDER`.
    pub url: String,
    /// The user at the mail server. Empty: no login.
    pub user: String,
    /// The user's password.
    #[serde(serialize_with = "super::writing::secret")]
    pub password: SecretString,
    /// The sender of all emails.
    pub from: String,
    /// Where the operator is told of what needs a decision. Empty: nowhere.
    pub operator_email: String,
    /// A PEM file with certificate authorities that are trusted in addition to the public ones.
    /// Empty: none.
    pub ca_file: PathBuf,
    /// Milliseconds that sending one email may take.
    pub timeout_ms: u64,
}

impl MailSection {
    /// The folder that emails are written to, if they are not sent.
    pub fn folder(&self) -> Option<&Path> {
        self.url.strip_prefix("file:").map(Path::new)
    }

    /// Where the operator is told of what needs a decision; none if it wants no emails.
    pub fn operator(&self) -> Option<Email> {
        self.operator_email.parse().ok()
    }

    /// The settings of the email client; a relative folder is relative to `base`.
    pub fn settings(&self, base: &Path) -> Result<MailSettings, ConfigProblem> {
        let destination = match self.folder() {
            Some(folder) if folder.as_os_str().is_empty() => {
                return Err(ConfigProblem::new("mail.url", "must name a folder"));
            }
            Some(folder) => MailDestination::Folder(base.join(folder)),
            None => MailDestination::Smtp(self.server()?),
        };
        let timeout = Duration::from_millis(self.timeout_ms);
        Ok(MailSettings { destination, from: self.from.clone(), timeout })
    }

    fn server(&self) -> Result<SmtpServer, ConfigProblem> {
        let unknown = || {
            let message = "must be smtps://HOST:PORT, smtp+starttls://HOST:PORT, smtp://127.0.0.1:PORT \
                or file:FOLDER; user and password have settings of their own";
            ConfigProblem::new("mail.url", message)
        };
        let (scheme, place) = self.url.split_once("://").ok_or_else(unknown)?;
        let (security, usual_port) = match scheme {
            "smtps" => (MailSecurity::Tls, 465),
            "smtp+starttls" => (MailSecurity::StartTls, 587),
            "smtp" => (MailSecurity::None, 25),
            _ => return Err(unknown()),
        };
        let place: Authority = place.parse().map_err(|_| unknown())?;
        if place.as_str().contains('@') || place.host().is_empty() {
            return Err(unknown());
        }
        let host = place.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if security == MailSecurity::None && !is_loopback_host(&host) {
            let message = "smtp:// is unencrypted and allowed on loopback only; use smtps:// or smtp+starttls://";
            return Err(ConfigProblem::new("mail.url", message));
        }
        Ok(SmtpServer {
            host,
            port: place.port_u16().unwrap_or(usual_port),
            security,
            login: self.login()?,
            authorities: self.authorities()?,
        })
    }

    fn login(&self) -> Result<Option<(String, zeroize::Zeroizing<String>)>, ConfigProblem> {
        let password = self.password.expose_secret();
        match (self.user.is_empty(), password.is_empty()) {
            (true, true) => Ok(None),
            (false, false) => Ok(Some((self.user.clone(), password.to_owned().into()))),
            (true, false) => Err(ConfigProblem::new("mail.user", "is required with mail.password")),
            (false, true) => Err(ConfigProblem::new("mail.password", "is required with mail.user")),
        }
    }

    fn authorities(&self) -> Result<Option<Vec<u8>>, ConfigProblem> {
        if self.ca_file.as_os_str().is_empty() {
            return Ok(None);
        }
        let unreadable =
            |error| ConfigProblem::new("mail.ca_file", format!("cannot be read: {error}"));
        std::fs::read(&self.ca_file).map(Some).map_err(unreadable)
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        if !(1..=TIMEOUT_MS_MAX).contains(&self.timeout_ms) {
            problems.push(ConfigProblem::new("mail.timeout_ms", "must be 1 to 50,000"));
        }
        if !self.operator_email.is_empty() && self.operator().is_none() {
            let message = "must be empty or an address such as operator@example.com";
            problems.push(ConfigProblem::new("mail.operator_email", message));
        }
        if !mail::is_sender(&self.from) {
            let message =
                "must be an address such as no-reply@example.com or Gateway <no-reply@example.com>";
            problems.push(ConfigProblem::new("mail.from", message));
            return;
        }
        match self.settings(Path::new("")) {
            Err(problem) => problems.push(problem),
            Ok(settings) => {
                if let Err(invalid) = Mailer::new(&settings) {
                    problems.push(ConfigProblem::new("mail", invalid.to_string()));
                }
            }
        }
    }
}

/// The folder that relative paths of the configuration start from: that of the database file, if
/// there is one.
pub fn base_folder(config: &Config) -> PathBuf {
    let database = config.embedded_database();
    database.and_then(|path| path.parent().map(Path::to_path_buf)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(toml: &str) -> Vec<String> {
        let config = Config::from_toml(&format!("[mail]\n{toml}")).unwrap();
        let mut problems = Vec::new();
        config.mail.check(&mut problems);
        problems.into_iter().map(|problem| problem.key).collect()
    }

    fn server(toml: &str) -> (String, u16, MailSecurity) {
        let config = Config::from_toml(&format!("[mail]\n{toml}")).unwrap();
        let MailDestination::Smtp(server) =
            config.mail.settings(Path::new("")).unwrap().destination
        else {
            panic!("not a mail server: {toml}");
        };
        (server.host, server.port, server.security)
    }

    #[test]
    fn the_url_says_where_and_how() {
        let tls = |host: &str, port| (host.to_owned(), port, MailSecurity::Tls);
        assert_eq!(server("url = \"smtps://mail.example.com\""), tls("mail.example.com", 465));
        assert_eq!(server("url = \"smtps://[2001:db8::1]:10465\""), tls("2001:db8::1", 10_465));
        assert_eq!(
            server("url = \"smtp+starttls://mail.example.com\""),
            ("mail.example.com".to_owned(), 587, MailSecurity::StartTls)
        );
        assert_eq!(
            server("url = \"smtp://127.0.0.1:2525\""),
            ("127.0.0.1".to_owned(), 2_525, MailSecurity::None)
        );
    }

    #[test]
    fn relative_folders_start_beside_the_database() {
        let config = Config::from_toml("[mail]\nurl = \"file:out\"").unwrap();

        let settings = config.mail.settings(Path::new("/data")).unwrap();

        let MailDestination::Folder(folder) = settings.destination else { panic!("no folder") };
        assert_eq!(folder, Path::new("/data/out"));
    }

    #[test]
    fn unusable_mail_settings_are_problems() {
        assert_eq!(problems(""), [""; 0]);
        for (toml, key) in [
            ("url = \"mail.example.com\"", "mail.url"),
            ("url = \"http://mail.example.com\"", "mail.url"),
            ("url = \"smtp://mail.example.com\"", "mail.url"),
            ("url = \"smtps://user:secret@mail.example.com\"", "mail.url"),
            ("url = \"smtps://mail.example.com/path\"", "mail.url"),
            ("url = \"file:\"", "mail.url"),
            ("url = \"smtps://mail.example.com\"\nuser = \"ada\"", "mail.password"),
            ("url = \"smtps://mail.example.com\"\npassword = \"x\"", "mail.user"),
            ("url = \"smtps://mail.example.com\"\nca_file = \"no/such/file\"", "mail.ca_file"),
            ("from = \"nobody\"", "mail.from"),
            ("from = \"a@b.cd\\r\\nBcc: x@y.zz\"", "mail.from"),
            ("operator_email = \"nobody\"", "mail.operator_email"),
            ("timeout_ms = 0", "mail.timeout_ms"),
            ("timeout_ms = 50001", "mail.timeout_ms"),
        ] {
            assert_eq!(problems(toml), [key], "{toml}");
        }
    }
}
