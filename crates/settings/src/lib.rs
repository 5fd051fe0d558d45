//! The configuration: built-in commented defaults, overridden by a file, overridden by the
//! environment.
//!
//! Structs refuse unknown keys. `Config::problems` checks everything, across sections too, so that
//! an operator sees all mistakes together.

mod access;
mod admin;
pub mod billing;
pub mod brand;
mod brand_color;
pub mod brand_logo;
mod declared_platforms;
mod encryption;
pub mod envelope;
mod environment;
mod exports;
mod gateway;
pub mod http;
mod layers;
pub mod mail;
pub mod notices;
mod origins;
pub mod pacing;
pub mod platforms;
mod problem;
mod rate_limits;
mod reading;
mod retention;
pub mod secrets;
mod sections;
pub mod signing;
pub mod storage;
pub mod targets;
pub mod tax;
mod writing;

pub use access::{PasswordsSection, SessionsSection};
pub use admin::AdminSection;
pub use exports::ExportsSection;
pub use gateway::{PlatformDriftSection, PlatformRefusalsSection};
pub use layers::{DEFAULT_TOML, ENVIRONMENT_PREFIX};
pub use origins::KeyOrigin;
pub use problem::{ConfigProblem, UnreadableConfig, listed};
pub use rate_limits::RateLimitsSection;
pub use retention::RetentionSection;
pub use sections::UploadsSection;
pub use sections::{AccountNumbers, JobsSection, KeysSection, MeteringSection, SlotsSection};
pub use sections::{CreditsSection, DatabaseSection, ExpirySection, LogFormat, LogSection};

use std::path::{Path, PathBuf};

use secrecy::ExposeSecret as _;

use layers::{BRAND_PREFIX, Layers, layer};
use origins::KeyOrigins;

/// The whole configuration in force.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The public listener.
    pub http: http::HttpSection,
    /// The second, private listener.
    pub admin: AdminSection,
    /// Where all data is stored.
    pub database: DatabaseSection,
    /// Master keys.
    pub secrets: secrets::SecretsSection,
    /// What calls cost.
    pub credits: CreditsSection,
    /// How many keys a customer may have.
    pub keys: KeysSection,
    /// How many accounts of a customer may be active.
    pub slots: SlotsSection,
    /// The payment processor. In a box, as other large sections: futures carry the whole
    /// configuration while they start the service.
    pub processor: Box<billing::ProcessorSection>,
    /// Tax, documents and promotion codes.
    pub billing: tax::BillingSection,
    /// Credits that are bought once.
    pub packs: Vec<billing::Pack>,
    /// What customers can subscribe to.
    pub plans: Vec<billing::Plan>,
    /// Logins of customers in browsers.
    pub sessions: SessionsSection,
    /// How passwords are hashed.
    pub passwords: PasswordsSection,
    /// How often a key or an address may call.
    pub rate_limits: RateLimitsSection,
    /// Where uploaded files wait.
    pub uploads: UploadsSection,
    /// Where exports are stored.
    pub storage: storage::StorageSection,
    /// When a platform is considered to refuse all credentials.
    pub platform_refusals: PlatformRefusalsSection,
    /// When a platform is considered to be degraded.
    pub platform_drift: PlatformDriftSection,
    /// How calls are recorded.
    pub metering: MeteringSection,
    /// How long what has ended is kept.
    pub retention: RetentionSection,
    /// Where emails are sent.
    pub mail: mail::MailSection,
    /// Emails that customers get without asking.
    pub notices: notices::NoticesSection,
    /// Whose service it is, in emails and on pages.
    pub brand: Box<brand::BrandSection>,
    /// Work that follows a change, such as sending an email.
    pub jobs: JobsSection,
    /// Exports of whole datasets.
    pub exports: ExportsSection,
    /// What is logged, and how.
    pub log: LogSection,
    /// The platforms.
    pub platforms: platforms::PlatformsSection,
    /// Where the keys were set, for problems.
    #[serde(skip)]
    origins: KeyOrigins,
}

impl Config {
    /// Reads the defaults, then the file if one is named, then the environment.
    pub fn load(file: Option<&Path>) -> Result<Self, UnreadableConfig> {
        Self::load_with(file, environment::variables())
    }

    /// Like [`Config::load`], with these environment variables.
    pub fn load_with(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, UnreadableConfig> {
        let written = file.map(text_of_file).transpose().map_err(UnreadableConfig::File)?;
        let mut origins = written.as_deref().map(KeyOrigins::of_file).unwrap_or_default();
        let given = written.map(reading::parse).transpose().map_err(UnreadableConfig::Syntax)?;
        let (overrides, problems) =
            environment::overrides(variables, given.as_ref(), &mut origins)?;
        let mut layers = layer(DEFAULT_TOML);
        if let Some(table) = given {
            let text = table.to_string();
            layers = layers.add_source(config::File::from_str(&text, config::FileFormat::Toml));
        }
        let overrides = config::File::from_str(&overrides.to_string(), config::FileFormat::Toml);
        Self::read(layers.add_source(overrides), problems, origins)
    }

    /// `[brand]` as the environment sets it, over the defaults: for the sandbox, which decides
    /// everything else itself.
    pub fn brand_of_environment() -> Result<Box<brand::BrandSection>, UnreadableConfig> {
        let of_brand = environment::variables().filter(|(name, _)| name.starts_with(BRAND_PREFIX));
        Ok(Self::load_with(None, of_brand)?.brand)
    }

    /// Reads the defaults overridden by `overrides`, a TOML text. Ignores the environment.
    pub fn from_toml(overrides: &str) -> Result<Self, UnreadableConfig> {
        let text = config::File::from_str(overrides, config::FileFormat::Toml);
        Self::read(layer(DEFAULT_TOML).add_source(text), Vec::new(), KeyOrigins::default())
    }

    /// Reads the layers. If something cannot be read, the other problems are collected as well.
    fn read(
        layers: Layers,
        mut problems: Vec<ConfigProblem>,
        origins: KeyOrigins,
    ) -> Result<Self, UnreadableConfig> {
        let (mut tree, mut defaults) = (layers.build()?.cache, layer(DEFAULT_TOML).build()?.cache);
        problems.extend(declared_platforms::declare(&mut tree, &mut defaults));
        let (read, found) = reading::read(tree, &defaults);
        problems.extend(found);
        let located = |all: Vec<ConfigProblem>| {
            all.into_iter().map(|problem| problem.located(&origins)).collect()
        };
        match read {
            Some(config) if problems.is_empty() => Ok(Self { origins, ..config }),
            Some(config) => {
                let others = config.all_problems().into_iter();
                // Values that could not be read were replaced by their defaults, whose problems are
                // not new.
                let is_news =
                    |other: &ConfigProblem| problems.iter().all(|known| known.key != other.key);
                let others: Vec<ConfigProblem> = others.filter(is_news).collect();
                problems.extend(others);
                Err(UnreadableConfig::Values(located(problems)))
            }
            None => Err(UnreadableConfig::Values(located(problems))),
        }
    }

    /// Whether `platform` receives calls to routes that its catalogue does not list: its own
    /// setting, or else the one for all platforms.
    pub fn unlisted_routes(&self, platform: domain::platform::Platform) -> http::UnlistedRoutes {
        use http::UnlistedRoutes;
        use platforms::PlatformUnlistedRoutes;

        let of_platform = self.platforms.get(platform).map(|section| section.unlisted_routes);
        match of_platform {
            Some(PlatformUnlistedRoutes::Forward) => UnlistedRoutes::Forward,
            Some(PlatformUnlistedRoutes::Refuse) => UnlistedRoutes::Refuse,
            Some(PlatformUnlistedRoutes::Default) | None => self.http.unlisted_routes,
        }
    }

    /// All problems, across all sections; empty if the service can start.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        self.http.check(&mut problems);
        self.admin.check(&mut problems);
        self.secrets.check(&self.database, &mut problems);
        self.database.check(&mut problems);
        self.credits.check(&mut problems);
        self.keys.check(&mut problems);
        self.slots.check(&mut problems);
        self.processor.check(&mut problems);
        self.billing.check(&mut problems);
        billing::check_offers(&self.packs, &self.plans, &mut problems);
        self.sessions.check(&mut problems);
        self.passwords.check(&mut problems);
        self.rate_limits.check(&mut problems);
        self.uploads.check(&mut problems);
        self.storage.check(&mut problems);
        self.platform_refusals.check(&mut problems);
        self.platform_drift.check(&mut problems);
        self.metering.check(&mut problems);
        self.retention.check(&mut problems);
        self.mail.check(&mut problems);
        self.notices.check(&mut problems);
        self.brand.check(&mut problems);
        self.jobs.check(&mut problems);
        self.exports.check(&mut problems);
        self.log.check(&mut problems);
        self.platforms.check(&mut problems);
        self.check_addresses(&mut problems);
        problems
    }
}

impl Config {
    /// All problems, including those of what the platforms' sections refer to: their catalogue
    /// files, and how the platforms are reached. Empty if the service can start.
    pub fn all_problems(&self) -> Vec<ConfigProblem> {
        let mut problems = self.problems();
        for problem in targets::problems(self) {
            // One message per key is enough: two checks may concern the same key.
            if problems.iter().all(|known| known.key != problem.key) {
                problems.push(problem);
            }
        }
        problems.into_iter().map(|problem| self.located(problem)).collect()
    }

    /// The problem with where its key was set, if that is known.
    pub fn located(&self, problem: ConfigProblem) -> ConfigProblem {
        problem.located(&self.origins)
    }

    /// The whole configuration as TOML, secrets hidden.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        // Through a table, so that plain values come before sections.
        toml::Table::try_from(self).and_then(|table| toml::to_string(&table))
    }

    /// The file of the embedded database, if that is the configured database.
    pub fn embedded_database(&self) -> Option<PathBuf> {
        self.database.url.expose_secret().strip_prefix("sqlite:").map(PathBuf::from)
    }
}

/// Reads a file as text; the error says why it cannot be read.
fn text_of_file(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a folder, not a file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
        std::io::ErrorKind::InvalidData => "it is not UTF-8".to_owned(),
        _ => error.to_string(),
    })
}

impl Config {
    /// Each listener needs an address of its own. Port 0 takes a free one.
    fn check_addresses(&self, problems: &mut Vec<ConfigProblem>) {
        let (http, admin) =
            (("http.listen", self.http.listen), ("admin.listen", self.admin.listen));
        let probe = self.admin.probe_listen.map(|address| ("admin.probe_listen", address));
        let mut before: Vec<(&str, std::net::SocketAddr)> = Vec::new();
        for (key, address) in [Some(http), Some(admin), probe].into_iter().flatten() {
            let takes_all = |ip: std::net::IpAddr| ip.is_unspecified();
            let meets = |other: &std::net::SocketAddr| {
                let (own, other_ip) = (address.ip(), other.ip());
                let is_same = own == other_ip || takes_all(own) || takes_all(other_ip);
                address.port() == other.port() && address.port() != 0 && is_same
            };
            if let Some((other, _)) = before.iter().find(|(_, other)| meets(other)) {
                problems
                    .push(ConfigProblem::new(key, format!("must not be the address of {other}")));
            }
            before.push((key, address));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_file_loads_and_has_no_problem() {
        let config = Config::from_toml("").unwrap();

        assert_eq!(config.problems(), Vec::new());
        assert_eq!(config.credits.costs().write.whole(), 2);
    }

    #[test]
    fn an_unknown_key_is_refused_and_named() {
        let refused = Config::from_toml("[http]\nlisten_on = \"127.0.0.1:1\"").unwrap_err();

        assert!(refused.to_string().contains("listen_on"), "{refused}");
    }

    #[test]
    fn all_problems_are_reported_together() {
        let config = Config::from_toml(
            "[http]\npublic_base_url = \"ftp://x\"\n[credits]\nread = -1\n[platforms.platform_beta]\nbase_url = \"http://127.0.0.1:1\"",
        )
        .unwrap();

        let keys: Vec<String> = config.problems().into_iter().map(|problem| problem.key).collect();

        assert_eq!(
            keys,
            ["http.public_base_url", "credits.read", "platforms.platform_beta.signing.key"]
        );
    }

    #[test]
    fn metering_delays_have_upper_limits() {
        let text = "[metering]\nread_patience_ms = 1001\ngather_ms = 101";

        let keys: Vec<String> = Config::from_toml(text)
            .unwrap()
            .problems()
            .into_iter()
            .map(|problem| problem.key)
            .collect();

        assert_eq!(keys, ["metering.read_patience_ms", "metering.gather_ms"]);
        let most = "[metering]\nread_patience_ms = 1000\ngather_ms = 100";
        assert_eq!(Config::from_toml(most).unwrap().problems(), Vec::new());
    }

    fn keys_of(toml: &str) -> Vec<String> {
        let config = Config::from_toml(toml).unwrap();
        config.problems().into_iter().map(|problem| problem.key).collect()
    }

    #[test]
    fn listeners_need_addresses_of_their_own() {
        let of = |http: &str, admin: &str, probe: &str| {
            keys_of(&format!(
                "[http]\nlisten = \"{http}\"\n[admin]\nlisten = \"{admin}\"\nprobe_listen = \"{probe}\""
            ))
        };

        assert_eq!(of("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:1"), ["admin.probe_listen"]);
        assert_eq!(of("0.0.0.0:1", "127.0.0.1:1", ""), ["admin.listen"]);
        assert_eq!(of("127.0.0.1:1", "127.0.0.1:2", "[::]:2"), ["admin.probe_listen"]);
        assert_eq!(of("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"), [""; 0]);
        assert_eq!(of("127.0.0.1:1", "127.0.0.2:1", "127.0.0.3:1"), [""; 0]);
    }

    #[test]
    fn an_unknown_database_is_one_problem() {
        assert_eq!(keys_of("[database]\nurl = \"mysql://x\""), ["database.url"]);
        let server = "[database]\nurl = \"postgres://x\"";
        assert_eq!(keys_of(server), ["secrets.master_keys"]);
    }
}
