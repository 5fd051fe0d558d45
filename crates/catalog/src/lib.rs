//! Which native routes exist on each platform, what they cost and what they need.
//!
//! Pure: the routes are data, built in from `data/platform_*.toml`, and an operator may add files of the same
//! shape. This crate reads no file and opens no connection; it answers questions about methods, paths, queries,
//! bodies and credentials.

mod auth_fields;
mod body_rules;
pub mod catalog_update;
pub mod column;
mod column_file;
pub mod dataset;
mod dataset_file;
mod file;
mod matcher;
pub mod openapi_import;
mod platform;
mod route;
mod route_changes;
mod route_docs;
mod route_docs_file;
mod schema_summary;
pub mod shorthand;
mod template;

use domain::field_error::FieldErrorKind;
use domain::platform::Platform;

pub use auth_fields::{AuthField, AuthKind, AuthValues};
pub use body_rules::BodyRule;
pub use dataset::Dataset;
pub use platform::{MatchedRoute, PlatformCatalog};
pub use route::{Route, RouteKind};
pub use route_docs::{
    RouteBody, RouteDocs, RoutePaging, RoutePagingStyle, RouteParameter, RouteResponse, SchemaText,
};
pub use schema_summary::SchemaMember;
pub use shorthand::Shorthand;

/// The catalogues of all platforms.
#[derive(Debug, Clone)]
pub struct Catalog {
    alpha: PlatformCatalog,
    beta: PlatformCatalog,
    gamma: PlatformCatalog,
    delta: PlatformCatalog,
}

/// What an operator handed over cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// A catalogue file.
    #[error("the catalogue of {platform}: {problem}")]
    File {
        /// Whose catalogue it is.
        platform: Platform,
        /// Which entry or line is wrong, and how.
        problem: String,
    },
    /// An OpenAPI document.
    #[error("the OpenAPI document: {0}")]
    Document(String),
    /// A catalogue file that is to be brought up to date.
    #[error("the catalogue file: {0}")]
    Existing(String),
}

/// Why a field that a caller sent is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldProblem {
    /// Where it is: `body`, `query` or `path`, then names and indexes inwards.
    pub location: Vec<String>,
    /// What is wrong with it, for people. Never holds the value.
    pub message: String,
    /// What kind of mistake it is.
    pub kind: FieldErrorKind,
}

impl Catalog {
    /// The built-in catalogue. It was checked when it was built: a test proves that this does not fail.
    pub fn built_in() -> Result<Self, CatalogError> {
        Ok(Self {
            alpha: built_in(Platform::Alpha)?,
            beta: built_in(Platform::Beta)?,
            gamma: built_in(Platform::Gamma)?,
            delta: built_in(Platform::Delta)?,
        })
    }

    /// Adds an operator's catalogue file. An entry for the same method and paths (whatever its parameters are
    /// called) replaces the one before; an auth field of the same name does too; others come after.
    pub fn with_extra(mut self, platform: Platform, toml: &str) -> Result<Self, CatalogError> {
        let file = file::parse(toml).map_err(|problem| CatalogError::File { platform, problem })?;
        let place = self.place(platform);
        *place = place.clone().with(file)?;
        Ok(self)
    }

    /// Takes a platform's routes from an operator's catalogue file alone. Auth fields and datasets
    /// come from it too where it has any; otherwise the auth fields stay, and the datasets whose
    /// routes the file has.
    pub fn with_replacement(
        mut self,
        platform: Platform,
        toml: &str,
    ) -> Result<Self, CatalogError> {
        let file = file::parse(toml).map_err(|problem| CatalogError::File { platform, problem })?;
        let place = self.place(platform);
        *place = place.clone().replaced_by(file)?;
        Ok(self)
    }

    const fn place(&mut self, platform: Platform) -> &mut PlatformCatalog {
        match platform {
            Platform::Alpha => &mut self.alpha,
            Platform::Beta => &mut self.beta,
            Platform::Gamma => &mut self.gamma,
            Platform::Delta => &mut self.delta,
        }
    }

    /// The catalogue of one platform.
    pub const fn platform(&self, platform: Platform) -> &PlatformCatalog {
        match platform {
            Platform::Alpha => &self.alpha,
            Platform::Beta => &self.beta,
            Platform::Gamma => &self.gamma,
            Platform::Delta => &self.delta,
        }
    }
}

fn built_in(platform: Platform) -> Result<PlatformCatalog, CatalogError> {
    let text = match platform {
        Platform::Alpha => include_str!("../data/platform_alpha.toml"),
        Platform::Beta => include_str!("../data/platform_beta.toml"),
        Platform::Gamma => include_str!("../data/platform_gamma.toml"),
        Platform::Delta => include_str!("../data/platform_delta.toml"),
    };
    let file = file::parse(text).map_err(|problem| CatalogError::File { platform, problem })?;
    PlatformCatalog::new(platform, file)
}
