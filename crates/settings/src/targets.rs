//! The configured platforms as the client reaches them, and their catalogue.

use std::path::{Path, PathBuf};
use std::time::Duration;

use catalog::{AuthField, AuthKind, Catalog, CatalogError};
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use platform_client::{
    CallTimeouts, ClientAuthentication, CredentialField, HostSettings, OauthSettings,
    PlatformTarget, TargetSettings, VerifySettings,
};
use secrecy::ExposeSecret;
use zeroize::Zeroizing;

use crate::Config;
use crate::envelope::EnvelopeSection;
use crate::platforms::{CatalogMode, HostSection, NamedValue, PlatformSection, PlatformsSection};
use crate::problem::ConfigProblem;

/// Returns the offered platforms, or the problems of their sections. The catalogue says which
/// credentials their accounts have; without a catalogue, names of credentials are not checked.
pub fn targets(
    platforms: &PlatformsSection,
    catalog: Option<&Catalog>,
) -> Result<PerPlatform<PlatformTarget>, Vec<ConfigProblem>> {
    let mut targets = PerPlatform::default();
    let mut problems = Vec::new();
    for (platform, section) in platforms.offered() {
        let mut settings = settings(platform, section);
        settings.credential_fields = catalog.map(|catalog| {
            let fields = catalog.platform(platform).auth_fields().iter();
            fields.map(credential_field).collect()
        });
        match PlatformTarget::new(&settings) {
            Ok(target) => {
                let upload = catalog.and_then(|catalog| catalog.platform(platform).upload());
                if target.signs_whole_bodies() && upload.is_some() {
                    problems.push(ConfigProblem::new(
                        format!("platforms.{platform}.signing.parts"),
                        "hash the body, but uploads of this platform are sent from disk; say with \
                         `spooled` what stands for their hash",
                    ));
                }
                drop(targets.insert(platform, target));
            }
            Err(found) => problems.extend(found.into_iter().map(|problem| {
                let unit = if problem.key.starts_with("timeouts.") { "_ms" } else { "" };
                ConfigProblem::new(
                    format!("platforms.{platform}.{}{unit}", problem.key),
                    problem.message,
                )
            })),
        }
    }
    if problems.is_empty() { Ok(targets) } else { Err(problems) }
}

fn credential_field(field: &AuthField) -> CredentialField {
    let has_members = field.kind == AuthKind::StringMap;
    CredentialField { name: field.name.clone(), has_members }
}

fn settings(platform: Platform, section: &PlatformSection) -> TargetSettings {
    let pair = |named: &NamedValue| (named.name.clone(), named.value.clone());
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let milliseconds = Duration::from_millis;
    let file = |path: &PathBuf| (!path.as_os_str().is_empty()).then(|| path.clone());
    let host = |host: &HostSection| HostSettings {
        path: host.path.clone(),
        base_url: host.base_url.clone(),
    };
    let oauth = &section.oauth;
    let verify = &section.verify_route;
    TargetSettings {
        platform,
        credential_fields: None,
        base_url: section.base_url.clone(),
        path_prefix: section.path_prefix.clone(),
        headers: section.headers.iter().map(pair).collect(),
        version_header: Some(pair(&section.version_header)).filter(|(name, _)| !name.is_empty()),
        signing: section.signing.settings(),
        envelope: section.envelope == EnvelopeSection::Response,
        envelope_pointers: section.envelope.pointers(),
        cookies: section.cookies,
        query: section.query.iter().map(pair).collect(),
        response_headers: section.response_headers.clone(),
        user_agent: section.user_agent.clone(),
        verify: VerifySettings {
            path: verify.path.clone(),
            method: verify.method.clone(),
            body: verify.body.clone(),
            id_pointer: some(&verify.id_pointer),
            equals_field: some(&verify.equals_field),
            accepted_statuses: verify.accepted_statuses.clone(),
        },
        oauth: (!oauth.token_url.is_empty()).then(|| OauthSettings {
            token_url: oauth.token_url.clone(),
            client_id: oauth.client_id.clone(),
            client_secret: Zeroizing::new(oauth.client_secret.expose_secret().to_owned()),
            authentication: if oauth.client_authentication == "basic" {
                ClientAuthentication::Basic
            } else {
                ClientAuthentication::Post
            },
        }),
        timeouts: CallTimeouts {
            connect: milliseconds(section.timeouts.connect_ms),
            tls: milliseconds(section.timeouts.tls_ms),
            first_byte: milliseconds(section.timeouts.first_byte_ms),
            between_bytes: milliseconds(section.timeouts.between_bytes_ms),
            stream_idle: milliseconds(section.timeouts.stream_idle_ms),
        },
        ca_file: file(&section.ca_file),
        client_certificate_file: file(&section.client_certificate_file),
        client_key_file: file(&section.client_key_file),
        proxy: Zeroizing::new(section.proxy.expose_secret().to_owned()),
        private_proxies: section.private_proxies,
        hosts: section.hosts.iter().map(host).collect(),
    }
}

/// The catalogue of the declared platforms: built-in routes, and the operator's files over them.
pub fn catalogue(config: &Config) -> Result<Catalog, Vec<ConfigProblem>> {
    config.platforms.iter().try_fold(Catalog::empty(), |catalog, (platform, section)| {
        with_platform(catalog, platform, section).map_err(|(key, message)| {
            vec![ConfigProblem::new(format!("platforms.{platform}.{key}"), message)]
        })
    })
}

/// Adds one platform. Fails with the key of its section and the problem.
fn with_platform(
    mut catalog: Catalog,
    platform: Platform,
    section: &PlatformSection,
) -> Result<Catalog, (&'static str, String)> {
    let own_name = platform.stored_name();
    let built_in = if section.extends.is_empty() { own_name } else { &section.extends };
    if Platform::BUILT_IN.iter().any(|known| known.as_str() == built_in) {
        catalog = catalog
            .with_built_in(platform, built_in)
            .map_err(|error| ("extends", error.to_string()))?;
    }
    let path: &Path = &section.catalog;
    if path.as_os_str().is_empty() {
        return Ok(catalog);
    }
    let text = crate::text_of_file(path)
        .map_err(|reason| ("catalog", format!("{}: {reason}", path.display())))?;
    let changed = match section.catalog_mode {
        CatalogMode::Merge => catalog.with_extra(platform, &text),
        CatalogMode::Replace => catalog.with_replacement(platform, &text),
    };
    changed.map_err(|error| {
        let problem = match error {
            CatalogError::File { problem, .. } => problem,
            other => other.to_string(),
        };
        ("catalog", format!("{}: {problem}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalogue_file_is_merged_or_replaces_the_built_in_routes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("routes.toml");
        std::fs::write(&file, "[[routes]]\nmethod = \"GET\"\ntemplate = \"brand/new\"\n").unwrap();
        let routes = |mode: &str| {
            let text =
                format!("[platforms.platform_alpha]\ncatalog = {file:?}\ncatalog_mode = {mode:?}");
            let catalog = catalogue(&Config::from_toml(&text).unwrap()).unwrap();
            let alpha = catalog.platform(Platform::ALPHA);
            assert!(alpha.find(domain::method::Method::Get, "brand/new").is_some(), "{mode}");
            alpha.routes().len()
        };

        assert_eq!(routes("replace"), 1);
        assert!(routes("merge") > 50);
    }

    #[test]
    fn a_catalogue_file_that_cannot_be_read_is_named_by_its_key() {
        let text = "[platforms.platform_beta]\ncatalog = \"/nowhere/routes.toml\"";

        let problems = catalogue(&Config::from_toml(text).unwrap()).unwrap_err();

        assert_eq!(problems[0].key, "platforms.platform_beta.catalog");
    }
}
