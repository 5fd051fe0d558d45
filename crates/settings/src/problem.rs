//! What is wrong with a configuration.

use crate::origins::{KeyOrigin, KeyOrigins};

/// A configuration that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableConfig {
    /// The file cannot be read.
    #[error("the configuration cannot be read: {0}")]
    File(String),
    /// The file is not TOML: where, and what is wrong. The line itself may hold a secret.
    #[error("the configuration cannot be read: {0}")]
    Syntax(String),
    /// The built-in defaults and the layers over them cannot be merged.
    #[error("the configuration cannot be read: {0}")]
    Layers(#[from] config::ConfigError),
    /// Unknown names, values that cannot be read, and everything else that is wrong.
    #[error("the configuration has problems:\n{}", listed(.0))]
    Values(Vec<ConfigProblem>),
}

/// The problems, one per line.
pub fn listed(problems: &[ConfigProblem]) -> String {
    problems.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n")
}

/// One problem of a configuration that could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The dotted name of the key, such as `http.public_base_url`.
    pub key: String,
    /// What is wrong, and what to do about it.
    pub message: String,
    /// Where the operator set it, if that is known.
    pub origin: Option<KeyOrigin>,
}

impl std::fmt::Display for ConfigProblem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.origin {
            Some(origin) => write!(formatter, "{} ({origin}): {}", self.key, self.message),
            None => write!(formatter, "{}: {}", self.key, self.message),
        }
    }
}

impl ConfigProblem {
    /// A problem with the key of this dotted name.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), origin: None }
    }

    /// The same with where its key was set.
    pub(super) fn located(self, origins: &KeyOrigins) -> Self {
        let origin = self.origin.or_else(|| origins.of(&self.key).cloned());
        Self { origin, ..self }
    }
}

/// The message for an unknown name, with the known name that it resembles.
pub(super) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let distance = |candidate: &str| {
        let (name, candidate) = (name.to_ascii_lowercase(), candidate.to_ascii_lowercase());
        strsim::damerau_levenshtein(&name, &candidate)
    };
    let nearest = known.clone().min_by_key(|candidate| distance(candidate));
    match nearest.filter(|candidate| distance(candidate) <= usize::max(2, name.len() / 3)) {
        Some(nearest) => format!("is unknown; did you mean `{nearest}`?"),
        None if known.clone().count() <= 24 => {
            let known: Vec<String> = known.map(|one| format!("`{one}`")).collect();
            format!("is unknown; expected one of {}", known.join(", "))
        }
        None => "is unknown".to_owned(),
    }
}
