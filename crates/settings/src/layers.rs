//! The layers of text that make the configuration.

/// The reference: every key, its default and its meaning.
pub const DEFAULT_TOML: &str = include_str!("../../../config/default.toml");
/// The prefix of environment variables such as `CREATOR_GATEWAY__HTTP__LISTEN`.
pub const ENVIRONMENT_PREFIX: &str = "CREATOR_GATEWAY";

/// The prefix of the variables of `[brand]`.
pub(super) const BRAND_PREFIX: &str = "CREATOR_GATEWAY__BRAND__";

/// The layers, each over the one before.
pub(super) type Layers = config::ConfigBuilder<config::builder::DefaultState>;

pub(super) fn layer(text: &str) -> Layers {
    config::Config::builder().add_source(config::File::from_str(text, config::FileFormat::Toml))
}
