//! The proxy of an account's requests: configured, or named by its credentials.
//!
//! What an account's credentials name may be anything, so a proxy of theirs is on a
//! public address unless the configuration says otherwise.

use std::sync::Arc;

use outbound::{ClientError, ProxyAddress, SettingsProblem};
use zeroize::Zeroizing;

use super::credentials::AccountCredentials;
use super::template::TextTemplate;

/// The proxy of a platform's accounts, as it is configured.
#[derive(Clone)]
pub(super) enum ProxyChoice {
    /// None.
    Direct,
    /// The same for all accounts.
    Fixed(Arc<ProxyAddress>),
    /// What a credential says. None where the account does not have it, unless it is a member of an
    /// object.
    Field { field: String, may_be_private: bool },
    /// Made of credentials, all of which an account must have.
    Template { template: TextTemplate, may_be_private: bool },
}

/// The proxy that a request goes through, kept with the request.
#[derive(Clone)]
pub(super) struct ProxyRoute(pub(super) Arc<ProxyAddress>);

impl ProxyChoice {
    /// Checks the settings; problems are added with the names of their keys.
    pub(super) fn new(
        text: &str,
        may_be_private: bool,
        problems: &mut Vec<SettingsProblem>,
    ) -> Self {
        let mut refuse = |message: &str| {
            problems.push(SettingsProblem::new("proxy", message));
            Self::Direct
        };
        if text.is_empty() {
            return Self::Direct;
        }
        let template = match TextTemplate::parse(text) {
            Ok(template) => template,
            Err(message) => return refuse(message),
        };
        if template.names_call() {
            return refuse("must not name {call_id}: a proxy belongs to an account");
        }
        if let Some(field) = template.only_field() {
            return Self::Field { field: field.to_owned(), may_be_private };
        }
        if template.fields().next().is_some() {
            // Whatever stands in the places, the rest must be an address.
            return match ProxyAddress::parse(&template.filled_with("1"), true) {
                Ok(_) => Self::Template { template, may_be_private },
                Err(message) => refuse(message),
            };
        }
        // The operator's own may be anywhere.
        match ProxyAddress::parse(text, true) {
            Ok(address) => Self::Fixed(Arc::new(address)),
            Err(message) => refuse(message),
        }
    }

    /// The proxy of an account, if it has one.
    pub(super) fn of_account(
        &self,
        credentials: &AccountCredentials,
    ) -> Result<Option<Arc<ProxyAddress>>, ClientError> {
        let absent = || ClientError::build("a credential of the account's proxy is absent");
        let (text, may_be_private) = match self {
            Self::Direct => return Ok(None),
            Self::Fixed(address) => return Ok(Some(Arc::clone(address))),
            Self::Field { field, may_be_private } => match credentials.get(field) {
                Some(text) => (Zeroizing::new(text.to_owned()), *may_be_private),
                // A member of an object may be misspelled, and nobody checks its name.
                None if field.contains('.') => return Err(absent()),
                None => return Ok(None),
            },
            Self::Template { template, may_be_private } => {
                (template.fill_path(credentials, "").ok_or_else(absent)?, *may_be_private)
            }
        };
        let address = ProxyAddress::parse(&text, may_be_private)
            .map_err(|message| ClientError::build(format!("the account's proxy {message}")))?;
        Ok(Some(Arc::new(address)))
    }

    /// The credentials that it names.
    pub(super) fn fields(&self) -> Vec<&str> {
        match self {
            Self::Direct | Self::Fixed(_) => Vec::new(),
            Self::Field { field, .. } => vec![field],
            Self::Template { template, .. } => template.fields().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Option<String> {
        let mut problems = Vec::new();
        drop(ProxyChoice::new(text, false, &mut problems));
        problems.pop().map(|problem| format!("{}: {}", problem.key, problem.message))
    }

    #[test]
    fn an_address_of_a_proxy_is_http_or_socks5_with_a_host_and_a_port() {
        for text in [
            "",
            "http://127.0.0.1:3128",
            "http://user:p%40ss@proxy.example:80/",
            "socks5://proxy.example:1080",
            "socks5h://[::1]:1080",
            "{proxy}",
            "http://{proxy_user}:{proxy_password}@gate.example:7000",
            "socks5://{extra.host}:{extra.port}",
        ] {
            assert_eq!(problem(text), None, "{text}");
        }
        for text in [
            "hush",
            "https://hush.example:443",
            "ftp://hush.example:21",
            "http://hush.example",
            "http://hush.example:0",
            "http://hush.example:99999",
            "http://hush.example:80/path",
            "http://hush%:x@proxy.example:80",
            "http://hush%0a@proxy.example:80",
            "http://hu%3ash:x@proxy.example:80",
            "socks5://:80",
            "{proxy",
            "{scheme}://proxy.example:80",
            "http://{call_id}.example:80",
        ] {
            let problem = problem(text).unwrap();
            assert!(problem.starts_with("proxy: ") && !problem.contains("hush"), "{problem}");
        }
    }

    fn of_account(template: &str, json: &str) -> Result<Option<Arc<ProxyAddress>>, ClientError> {
        let choice = ProxyChoice::new(template, false, &mut Vec::new());
        choice.of_account(&AccountCredentials::from_json(json.as_bytes()).unwrap())
    }

    #[test]
    fn an_account_brings_its_proxy_or_has_none() {
        let text = "socks5://u:p%2F@8.8.8.8:1";
        let given = of_account("{proxy}", &format!(r#"{{"proxy":"{text}"}}"#)).unwrap();
        assert!(*given.unwrap() == ProxyAddress::parse(text, false).unwrap());
        assert!(of_account("{proxy}", "{}").unwrap().is_none());
        let member = format!(r#"{{"extra.proxy":"{text}"}}"#);
        assert!(of_account("{extra.proxy}", &member).unwrap().is_some());
        let misspelled = format!(r#"{{"extra.Proxy":"{text}"}}"#);
        for json in ["{}", &misspelled] {
            let refused = of_account("{extra.proxy}", json).unwrap_err();
            assert!(format!("{refused:?}").contains("is absent"), "{refused:?}");
        }

        let template = "http://{user}:{word}@gate.example:7000";
        let refused = of_account(template, r#"{"user":"a@b:c","word":"1"}"#);
        assert!(refused.unwrap_err().source.unwrap().to_string().contains("colon"));
        let made = of_account(template, r#"{"user":"a@b","word":"1/2"}"#).unwrap().unwrap();
        let meant = ProxyAddress::parse("http://a%40b:1%2F2@gate.example:7000", false).unwrap();
        assert!(*made == meant);
        assert!(of_account(template, r#"{"user":"a"}"#).is_err());
    }

    #[test]
    fn an_account_cannot_lead_requests_into_a_private_network() {
        for host in ["127.0.0.1", "10.1.2.3", "169.254.169.254", "[::1]", "localhost", "[fd00::1]"]
        {
            let json = format!(r#"{{"proxy":"http://{host}:80"}}"#);
            let refused = of_account("{proxy}", &json).unwrap_err();
            assert!(refused.source.unwrap().to_string().contains("private network"), "{host}");
        }
    }
}
