//! A platform whose whole catalogue is the text of a test.

use catalog::{Catalog, PlatformCatalog};
use domain::platform::Platform;

/// The catalogue of a platform that has this file alone.
pub(crate) fn read(toml: &str) -> PlatformCatalog {
    let catalog = Catalog::empty().with_extra(Platform::ALPHA, toml).unwrap();
    catalog.platform(Platform::ALPHA).clone()
}

/// Why a file is refused.
pub(crate) fn problem(toml: &str) -> String {
    let refused = Catalog::empty().with_extra(Platform::ALPHA, toml).unwrap_err().to_string();
    refused.strip_prefix("the catalogue of platform_alpha: ").unwrap().to_owned()
}

/// An entry of `[[routes]]` with further lines.
pub(crate) fn route(method: &str, template: &str, lines: &str) -> String {
    format!("[[routes]]\nmethod = {method:?}\ntemplate = {template:?}\n{lines}\n")
}
