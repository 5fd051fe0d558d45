//! Which native routes exist on each platform, what they cost and what they need.
//!
//! Pure: the routes are data, built in from `data/platform_*.toml`, and an operator may add files
//! of the same shape. This crate reads no file and opens no connection; it answers questions about
//! methods, paths, queries, bodies and credentials.

mod auth_fields;
mod body_rules;
pub mod catalog_update;
pub mod column;
mod column_file;
pub mod dataset;
mod dataset_file;
mod entry_problem;
mod field_problem;
mod file;
mod file_writer;
mod matcher;
pub mod openapi_import;
mod operation;
mod platform;
mod route;
mod route_changes;
mod route_docs;
mod route_docs_file;
mod schema_summary;
pub mod shorthand;
mod template;
mod toml_text;

use domain::per_platform::PerPlatform;
use domain::platform::Platform;

pub use auth_fields::{AuthField, AuthKind, AuthValues};
pub use body_rules::BodyRule;
pub use dataset::Dataset;
pub use field_problem::FieldProblem;
pub use operation::RouteOperation;
pub use platform::{MatchedRoute, ParameterSetter, PlatformCatalog};
pub use route::{Route, RouteKind};
pub use route_docs::{
    RouteBody, RouteDocs, RoutePaging, RoutePagingStyle, RouteParameter, RouteResponse, SchemaText,
};
pub use schema_summary::SchemaMember;
pub use shorthand::Shorthand;

/// The catalogues of all platforms.
#[derive(Debug, Clone)]
pub struct Catalog {
    platforms: PerPlatform<PlatformCatalog>,
    /// Of platforms that nothing is known of: no routes, no credentials.
    empty: PlatformCatalog,
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

impl Catalog {
    /// The built-in catalogue. It was checked when it was built: a test proves that this does not
    /// fail.
    pub fn built_in() -> Result<Self, CatalogError> {
        Platform::BUILT_IN.iter().try_fold(Self::empty(), |all, platform| {
            all.with_built_in(*platform, platform.stored_name())
        })
    }

    /// A catalogue without any platform.
    pub fn empty() -> Self {
        let platforms = PerPlatform::default();
        Self { platforms, empty: PlatformCatalog::empty() }
    }

    /// Gives a platform the routes, fields and datasets of a built-in one, named as in the
    /// specification.
    ///
    /// Fails when there is no built-in platform of that name.
    pub fn with_built_in(mut self, platform: Platform, name: &str) -> Result<Self, CatalogError> {
        let text = built_in(name).ok_or_else(|| {
            let problem = format!("there is no built-in platform {name}");
            CatalogError::File { platform, problem }
        })?;
        let file = file::parse(text).map_err(|problem| CatalogError::File { platform, problem })?;
        self.platforms.insert(platform, PlatformCatalog::new(platform, file)?);
        Ok(self)
    }

    /// Adds an operator's catalogue file. An entry for the same method and paths (whatever its
    /// parameters are called) replaces the one before; an auth field of the same name does too;
    /// others come after.
    pub fn with_extra(mut self, platform: Platform, toml: &str) -> Result<Self, CatalogError> {
        let file = file::parse(toml).map_err(|problem| CatalogError::File { platform, problem })?;
        let all = match self.platforms.get(platform) {
            Some(before) => before.clone().with(platform, file)?,
            None => PlatformCatalog::new(platform, file)?,
        };
        self.platforms.insert(platform, all);
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
        let all = match self.platforms.get(platform) {
            Some(before) => before.clone().replaced_by(platform, file)?,
            None => PlatformCatalog::new(platform, file)?,
        };
        self.platforms.insert(platform, all);
        Ok(self)
    }

    /// These platforms, and those of the other catalogue in place of the ones that both have.
    #[must_use]
    pub fn joined_with(mut self, other: &Self) -> Self {
        for (platform, catalog) in other.platforms.iter() {
            self.platforms.insert(platform, catalog.clone());
        }
        self
    }

    /// The catalogue of one platform; an empty one when the platform is not declared.
    pub fn platform(&self, platform: Platform) -> &PlatformCatalog {
        self.platforms.get(platform).unwrap_or(&self.empty)
    }
}

/// The file of a built-in platform.
fn built_in(name: &str) -> Option<&'static str> {
    let files = [
        ("platform_alpha", include_str!("../data/platform_alpha.toml")),
        ("platform_beta", include_str!("../data/platform_beta.toml")),
        ("platform_gamma", include_str!("../data/platform_gamma.toml")),
        ("platform_delta", include_str!("../data/platform_delta.toml")),
    ];
    files.into_iter().find(|(known, _)| *known == name).map(|(_, text)| text)
}
