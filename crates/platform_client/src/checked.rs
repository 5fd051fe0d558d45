//! The settings of one platform, checked: all problems are found at once and named by their keys.

use std::time::Duration;

use domain::platform::Platform;
use http::header::{ACCEPT_ENCODING, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::uri::{Authority, Scheme};
use outbound::{ClientIdentity, ConnectionSettings, SettingsProblem};

use super::checks::{self, header_name, place};
use super::envelope_kind::EnvelopeKind;
use super::named_fields;
use super::native_hosts::NativeHosts;
use super::oauth::TokenEndpoint;
use super::proxy::ProxyChoice;
use super::query_fields::QueryFields;
use super::references::NativeSpace;
use super::response_headers::ResponseHeaders;
use super::settings::TargetSettings;
use super::signing::RequestSigner;
use super::template::TextTemplate;
use super::verify::IdentityCheck;

/// The longest time for a phase of a call.
const TIMEOUT_MAX: Duration = Duration::from_hours(24);

/// What the settings of a platform say once they are known to be sound.
pub(super) struct CheckedSettings {
    pub(super) platform: Platform,
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
    /// Begins and ends with a slash.
    pub(super) prefix: String,
    /// The same for every request.
    pub(super) fixed: HeaderMap,
    pub(super) templates: Vec<(HeaderName, TextTemplate)>,
    pub(super) signer: Option<RequestSigner>,
    pub(super) envelope: EnvelopeKind,
    pub(super) cookies: bool,
    pub(super) query: QueryFields,
    pub(super) response_headers: ResponseHeaders,
    pub(super) identity: IdentityCheck,
    pub(super) oauth: Option<TokenEndpoint>,
    pub(super) connection: ConnectionSettings,
    pub(super) proxy: ProxyChoice,
    pub(super) hosts: NativeHosts,
}

impl CheckedSettings {
    /// Checks all of it; reads the file of the certificate authorities.
    pub(super) fn new(settings: &TargetSettings) -> Result<Self, Vec<SettingsProblem>> {
        let mut problems = Vec::new();
        let (base_url, path_prefix) = (settings.base_url.as_str(), settings.path_prefix.as_str());
        let place = place("base_url", base_url, "path_prefix", path_prefix, &mut problems);
        let host = place.as_ref().map(|(_, authority, _)| authority);
        let fixed = fixed_headers(settings, host, &mut problems);
        let templates = templates(settings, &mut problems);
        let signer = signer(settings, &templates, &mut problems);
        let identity = IdentityCheck::new(&settings.verify, &mut problems);
        named_fields::check(settings, &templates, identity.as_ref(), &mut problems);
        let proxy = ProxyChoice::new(&settings.proxy, settings.private_proxies, &mut problems);
        let query = QueryFields::new(&settings.query, &mut problems);
        let mut others = signer.as_ref().map(RequestSigner::fields).unwrap_or_default();
        others.extend(proxy.fields().into_iter().map(|field| ("proxy".to_owned(), field)));
        others.extend(query.fields());
        named_fields::check_others(settings, &others, &mut problems);
        let oauth = settings.oauth.as_ref();
        let oauth =
            oauth.and_then(|oauth| TokenEndpoint::new(oauth, &settings.user_agent, &mut problems));
        let connection = connection(settings, &mut problems);
        let envelope = EnvelopeKind::new(settings, &mut problems);
        let hosts = NativeHosts::new(&settings.hosts, &mut problems);
        let space = place.clone().map(|(scheme, authority, prefix)| {
            NativeSpace::new(scheme, authority, prefix).beside(hosts.clone())
        });
        let response_headers =
            ResponseHeaders::new(&settings.response_headers, space, &mut problems);
        match (place, identity, connection) {
            (Some((scheme, authority, prefix)), Some(identity), Some(connection))
                if problems.is_empty() =>
            {
                Ok(Self {
                    platform: settings.platform,
                    scheme,
                    authority,
                    prefix,
                    fixed,
                    templates,
                    signer,
                    envelope,
                    cookies: settings.cookies,
                    query,
                    response_headers,
                    identity,
                    oauth,
                    connection,
                    proxy,
                    hosts,
                })
            }
            _ => Err(problems),
        }
    }
}

/// What is the same for every request. `Host` is among it so that it has its place, the first one
/// (RFC 9110, section 7.2); the connection that carries a request has the last word on it.
fn fixed_headers(
    settings: &TargetSettings,
    authority: Option<&Authority>,
    problems: &mut Vec<SettingsProblem>,
) -> HeaderMap {
    let mut fixed = HeaderMap::new();
    if let Some(Ok(host)) = authority.map(|authority| HeaderValue::from_str(authority.as_str())) {
        fixed.insert(HOST, host);
    }
    fixed.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    match HeaderValue::from_str(&settings.user_agent) {
        Ok(value) if !value.is_empty() => drop(fixed.insert(USER_AGENT, value)),
        _ => problems.push(SettingsProblem::new("user_agent", "is required, in visible ASCII")),
    }
    if let Some((name, value)) = &settings.version_header {
        let name = header_name("version_header.name", name, problems);
        match HeaderValue::from_str(value) {
            Ok(value) if !value.is_empty() => drop(name.map(|name| fixed.insert(name, value))),
            _ => problems.push(SettingsProblem::new(
                "version_header.value",
                "is required, in visible ASCII",
            )),
        }
    }
    fixed
}

fn templates(
    settings: &TargetSettings,
    problems: &mut Vec<SettingsProblem>,
) -> Vec<(HeaderName, TextTemplate)> {
    let mut templates: Vec<(HeaderName, TextTemplate)> = Vec::new();
    for (index, (name, text)) in settings.headers.iter().enumerate() {
        let (name_key, value_key) =
            (format!("headers[{index}].name"), format!("headers[{index}].value"));
        let name = header_name(&name_key, name, problems);
        let template = match TextTemplate::parse(text) {
            Ok(template) if HeaderValue::from_str(&template.filled_with("x")).is_ok() => {
                Some(template)
            }
            Ok(_) => {
                problems.push(SettingsProblem::new(&value_key, "must be visible ASCII"));
                None
            }
            Err(message) => {
                problems.push(SettingsProblem::new(&value_key, message));
                None
            }
        };
        if name.as_ref().is_some_and(|name| templates.iter().any(|(other, _)| other == name)) {
            problems.push(SettingsProblem::new(name_key, "is given twice"));
        }
        templates.extend(name.zip(template));
    }
    templates
}

/// How requests are signed. A header that is signed is given once.
fn signer(
    settings: &TargetSettings,
    templates: &[(HeaderName, TextTemplate)],
    problems: &mut Vec<SettingsProblem>,
) -> Option<RequestSigner> {
    let mut value_names = Vec::new();
    for (name, template) in templates {
        for value in template.values() {
            if settings.signing.as_ref().is_none_or(|signing| signing.values.is_none()) {
                let header =
                    |(other, _): &(String, String)| other.eq_ignore_ascii_case(name.as_str());
                let index = settings.headers.iter().position(header).unwrap_or_default();
                let message = format!(
                    "names {{signing.{value}}}, and there is no signing.values to read it from"
                );
                problems.push(SettingsProblem::new(format!("headers[{index}].value"), message));
            }
            checks::place_of(&mut value_names, value.to_owned());
        }
    }
    let signing = settings.signing.as_ref()?;
    let signer = RequestSigner::new(signing, settings.platform.as_str(), value_names, problems)?;
    if !signing.headers.is_empty() {
        for (index, name) in signer.header_names().into_iter().enumerate() {
            if templates.iter().any(|(other, _)| other == name) {
                let key = format!("signing.headers[{index}].name");
                problems.push(SettingsProblem::new(key, "is given twice: also in headers"));
            }
        }
    }
    Some(signer)
}

fn connection(
    settings: &TargetSettings,
    problems: &mut Vec<SettingsProblem>,
) -> Option<ConnectionSettings> {
    let times = [
        ("timeouts.connect", settings.timeouts.connect),
        ("timeouts.tls", settings.timeouts.tls),
        ("timeouts.first_byte", settings.timeouts.first_byte),
        ("timeouts.upload", settings.timeouts.upload),
        ("timeouts.between_bytes", settings.timeouts.between_bytes),
        ("timeouts.stream_idle", settings.timeouts.stream_idle),
    ];
    for (key, time) in times {
        if time.is_zero() || time > TIMEOUT_MAX {
            problems.push(SettingsProblem::new(key, "must be 1 to 86,400,000: at most a day"));
        }
    }
    let identity = client_identity(settings, problems);
    match outbound::client_config_with(settings.ca_file.as_deref(), identity.as_ref()) {
        Ok(tls) => Some(ConnectionSettings {
            timeouts: settings.timeouts,
            ca_file: settings.ca_file.clone(),
            identity,
            tls,
        }),
        Err((key, message)) => {
            problems.push(SettingsProblem::new(key, message));
            None
        }
    }
}

/// The certificate that is shown, with its key.
fn client_identity(
    settings: &TargetSettings,
    problems: &mut Vec<SettingsProblem>,
) -> Option<ClientIdentity> {
    match (settings.client_certificate_file.clone(), settings.client_key_file.clone()) {
        (Some(certificate_file), Some(key_file)) => {
            Some(ClientIdentity { certificate_file, key_file })
        }
        (None, None) => None,
        (Some(_), None) => {
            let message = "is required with client_certificate_file";
            problems.push(SettingsProblem::new("client_key_file", message));
            None
        }
        (None, Some(_)) => {
            let message = "is required with client_key_file";
            problems.push(SettingsProblem::new("client_certificate_file", message));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::settings::sample::settings;
    use crate::settings::{OauthSettings, VerifySettings};
    use outbound::CallTimeouts;

    #[test]
    fn all_problems_are_found_at_once_and_named() {
        let unusable = TargetSettings {
            base_url: "ftp://user@host".to_owned(),
            path_prefix: "a/../b".to_owned(),
            headers: vec![
                ("Host".to_owned(), "x".to_owned()),
                ("A b".to_owned(), "x".to_owned()),
                ("X-A".to_owned(), "{Token}".to_owned()),
                ("X-B".to_owned(), "a\nb".to_owned()),
                ("X-C".to_owned(), "1".to_owned()),
                ("x-c".to_owned(), "2".to_owned()),
            ],
            version_header: Some(("Transfer-Encoding".to_owned(), "1".to_owned())),
            user_agent: String::new(),
            response_headers: vec!["Link".to_owned(), "Set-Cookie".to_owned()],
            verify: VerifySettings {
                path: "/me".to_owned(),
                id_pointer: None,
                equals_field: Some("id".to_owned()),
                accepted_statuses: vec![42],
                ..VerifySettings::default()
            },
            oauth: Some(OauthSettings {
                token_url: "token".to_owned(),
                client_id: String::new(),
                client_secret: Zeroizing::default(),
                authentication: crate::ClientAuthentication::Basic,
            }),
            timeouts: CallTimeouts { tls: Duration::ZERO, ..CallTimeouts::default() },
            ca_file: Some("/nowhere/ca.pem".into()),
            ..settings()
        };

        let problems = CheckedSettings::new(&unusable).err().unwrap();

        let mut keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "base_url",
                "ca_file",
                "headers[0].name",
                "headers[1].name",
                "headers[2].value",
                "headers[3].value",
                "headers[5].name",
                "oauth.client_id",
                "oauth.token_url",
                "path_prefix",
                "response_headers[1]",
                "timeouts.tls",
                "user_agent",
                "verify_route.accepted_statuses",
                "verify_route.equals_field",
                "verify_route.path",
                "version_header.name",
            ]
        );
    }

    #[test]
    fn only_addresses_with_a_plain_host_are_taken() {
        for base_url in [
            "",
            "example.org",
            "https://",
            "https://a@b.example",
            "https://b.example:99999",
            "https://b/#x",
            "https://b/?x",
        ] {
            let settings = TargetSettings { base_url: base_url.to_owned(), ..settings() };
            assert!(CheckedSettings::new(&settings).is_err(), "{base_url}");
        }
        for base_url in ["https://b.example", "http://[::1]:80", "https://b.example:8443/deep/er"] {
            let settings = TargetSettings { base_url: base_url.to_owned(), ..settings() };
            assert!(CheckedSettings::new(&settings).is_ok(), "{base_url}");
        }
    }
}
