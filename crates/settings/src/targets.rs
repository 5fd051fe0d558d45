//! The configured platforms as the client reaches them, and their catalogue.

use std::path::{Path, PathBuf};
use std::time::Duration;

use catalog::{AuthField, AuthKind, Catalog, CatalogError, ParameterSetter, PlatformCatalog};
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use platform_client::{
    CallTimeouts, ClientAuthentication, CredentialField, HostSettings, OauthSettings,
    PlatformTarget, TargetSettings, VerifySettings,
};
use secrecy::ExposeSecret;
use zeroize::Zeroizing;

use crate::Config;
use crate::encryption::plain_addresses;
use crate::envelope::EnvelopeSection;
use crate::platforms::{CatalogMode, HostSection, NamedValue, PlatformSection, PlatformsSection};
use crate::problem::ConfigProblem;

/// Returns the offered platforms, or the problems of their sections. The catalogue says which
/// credentials their accounts have, and which parameters the service sets itself.
pub fn targets(
    platforms: &PlatformsSection,
    catalog: &Catalog,
) -> Result<PerPlatform<PlatformTarget>, Vec<ConfigProblem>> {
    let mut targets = PerPlatform::default();
    let mut problems = Vec::new();
    for (platform, section) in platforms.offered() {
        match target(platform, section, Some(catalog.platform(platform))) {
            Ok(target) => drop(targets.insert(platform, target)),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(targets) } else { Err(problems) }
}

/// The problems of all platforms: of their catalogue files, and of how they are reached. Where a
/// catalogue file cannot be used, what it would say of the platform is not checked.
pub(crate) fn problems(config: &Config) -> Vec<ConfigProblem> {
    let (mut of_platforms, mut of_catalogues) = (Vec::new(), Vec::new());
    for (platform, section) in config.platforms.iter() {
        let catalog = match platform_catalog(platform, section) {
            Ok(catalog) => Some(catalog),
            Err(problem) => {
                of_catalogues.push(problem);
                None
            }
        };
        if section.is_offered() {
            let own = catalog.as_ref().map(|catalog| catalog.platform(platform));
            of_platforms.extend(target(platform, section, own).err().unwrap_or_default());
        }
    }
    of_platforms.extend(of_catalogues);
    of_platforms
}

/// One offered platform, or the problems of its section.
fn target(
    platform: Platform,
    section: &PlatformSection,
    catalog: Option<&PlatformCatalog>,
) -> Result<PlatformTarget, Vec<ConfigProblem>> {
    let mut settings = settings(platform, section);
    settings.credential_fields =
        catalog.map(|catalog| catalog.auth_fields().iter().map(credential_field).collect());
    let target = PlatformTarget::new(&settings).map_err(|found| {
        let named = found.into_iter().map(|problem| {
            let unit = if problem.key.starts_with("timeouts.") { "_ms" } else { "" };
            let key = format!("platforms.{platform}.{}{unit}", problem.key);
            ConfigProblem::new(key, problem.message)
        });
        named.collect::<Vec<_>>()
    });
    let set_twice =
        catalog.into_iter().flat_map(|own| parameters_set_twice(platform, section, own));
    let mut problems: Vec<ConfigProblem> = set_twice.collect();
    problems.extend(plain_addresses(platform, section));
    match target {
        Ok(target) => {
            let has_upload = catalog.is_some_and(|catalog| catalog.upload().is_some());
            if target.signs_whole_bodies() && has_upload {
                problems.push(ConfigProblem::new(
                    format!("platforms.{platform}.signing.parts"),
                    "hash the body, but uploads of this platform are sent from disk; say with \
                     `spooled` what stands for their hash",
                ));
            }
            if problems.is_empty() { Ok(target) } else { Err(problems) }
        }
        // Those first: a name that is no name at all is the greater problem.
        Err(found) => Err(found.into_iter().chain(problems).collect()),
    }
}

/// The parameters of `query` that the service sets too, so that each such request would be refused.
fn parameters_set_twice(
    platform: Platform,
    section: &PlatformSection,
    catalog: &PlatformCatalog,
) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    for (index, NamedValue { name, .. }) in section.query.iter().enumerate() {
        let Some(setter) = catalog.setter_of(name) else { continue };
        let why = match setter {
            ParameterSetter::Dataset(dataset) => format!("to read the dataset {dataset}"),
            ParameterSetter::Route(route) => format!("in calls of {route}"),
        };
        let message = format!(
            "must not be {name}: the service sets it itself {why}; take it out here, or there in \
             the catalogue"
        );
        let key = format!("platforms.{platform}.query[{index}].name");
        problems.push(ConfigProblem::new(key, message));
    }
    problems
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
            upload: milliseconds(section.timeouts.upload_ms),
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
/// Fails with the problems of all files.
pub fn catalogue(config: &Config) -> Result<Catalog, Vec<ConfigProblem>> {
    let (mut catalog, mut problems) = (Catalog::empty(), Vec::new());
    for (platform, section) in config.platforms.iter() {
        match platform_catalog(platform, section) {
            Ok(own) => catalog = catalog.joined_with(&own),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(catalog) } else { Err(problems) }
}

/// The catalogue of one platform alone.
fn platform_catalog(
    platform: Platform,
    section: &PlatformSection,
) -> Result<Catalog, ConfigProblem> {
    let refused = |key: &str, message: String| {
        ConfigProblem::new(format!("platforms.{platform}.{key}"), message)
    };
    let mut catalog = Catalog::empty();
    let own_name = platform.stored_name();
    let built_in = if section.extends.is_empty() { own_name } else { &section.extends };
    if Platform::BUILT_IN.iter().any(|known| known.as_str() == built_in) {
        catalog = catalog
            .with_built_in(platform, built_in)
            .map_err(|error| refused("extends", error.to_string()))?;
    }
    let path: &Path = &section.catalog;
    if path.as_os_str().is_empty() {
        return Ok(catalog);
    }
    let of_file = |reason: String| refused("catalog", format!("{}: {reason}", path.display()));
    let text = crate::text_of_file(path).map_err(of_file)?;
    let changed = match section.catalog_mode {
        CatalogMode::Merge => catalog.with_extra(platform, &text),
        CatalogMode::Replace => catalog.with_replacement(platform, &text),
    };
    changed.map_err(|error| {
        of_file(match error {
            CatalogError::File { problem, .. } => problem,
            other => other.to_string(),
        })
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

    #[test]
    fn every_broken_catalogue_file_is_reported_with_platform_file_and_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (broken, wrong) = (file("broken.toml", "[[routes]\n"), file("wrong.toml", "x = 1\n"));
        let text = format!(
            "[platforms.platform_alpha]\ncatalog = {broken:?}\n\
             [platforms.platform_beta]\nbase_url = \"https://b.example\"\n\
             headers = [{{ name = \"X\", value = \"{{nobody}}\" }}]\nsigning = {{ scheme = \"none\" }}\n\
             [platforms.mine]\nextends = \"platform_gamma\"\nbase_url = \"https://m.example\"\n\
             catalog = \"/nowhere.toml\"\n\
             [platforms.own]\ncatalog = {wrong:?}\nbase_url = \"https://own.example\"\n\
             verify_route.path = \"me\""
        );
        let config = Config::from_toml(&text).unwrap();

        let of_files: Vec<String> =
            catalogue(&config).unwrap_err().iter().map(ToString::to_string).collect();
        let all: Vec<String> = config.all_problems().iter().map(ToString::to_string).collect();

        let expected = [
            ("platform_alpha", broken.display().to_string()),
            ("mine", "/nowhere.toml: there is no such file".to_owned()),
            ("own", wrong.display().to_string()),
        ];
        assert_eq!(of_files.len(), expected.len(), "{of_files:#?}");
        for (platform, said) in expected {
            let start = format!("platforms.{platform}.catalog: {said}");
            for found in [&of_files, &all] {
                assert!(found.iter().any(|it| it.starts_with(&start)), "{start}: {found:#?}");
            }
        }
        // What other platforms are wrong in is found as well.
        let other = "platforms.platform_beta.headers[0].value: ";
        assert!(all.iter().any(|it| it.starts_with(other)), "{all:#?}");
    }
}
