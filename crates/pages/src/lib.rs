//! How pages for people look: the layout that they share, the style and the script, the operator's
//! brand, and the theme a visitor chose.
//!
//! It knows no customer and reads no data. `console` and `reference` write their pages with it;
//! their templates extend those in `templates/pages`.

pub mod accept;
pub mod assets;
pub mod brand;
pub mod plain;
pub mod respond;
pub mod theme;

pub use assets::PageAssets;
pub use brand::PageBrand;
pub use theme::PageTheme;

use std::sync::Arc;

use http::HeaderMap;
use settings::Config;

/// What every page is written with. Clones share it.
#[derive(Clone)]
pub struct PagesState(Arc<PagesParts>);

struct PagesParts {
    brand: PageBrand,
    assets: PageAssets,
}

impl PagesState {
    /// Prepares brand, style and script from the configuration, once.
    pub fn new(config: &Config) -> Self {
        let parts = PagesParts { brand: PageBrand::of(config), assets: PageAssets::new(config) };
        Self(Arc::new(parts))
    }

    /// The style and the script.
    pub fn assets(&self) -> &PageAssets {
        &self.0.assets
    }

    /// What the head and the frame of a page need, for the visitor who sent these headers.
    pub fn frame(&self, headers: &HeaderMap) -> PageFrame {
        PageFrame { pages: self.clone(), theme: PageTheme::of(headers) }
    }
}

/// What the head and the frame of one page need. Templates call it `frame`.
#[derive(Clone)]
pub struct PageFrame {
    pages: PagesState,
    /// The visitor's theme.
    pub theme: PageTheme,
}

impl PageFrame {
    /// Whose pages they are.
    pub fn brand(&self) -> &PageBrand {
        &self.pages.0.brand
    }

    /// The address of the style.
    pub fn style(&self) -> &str {
        self.pages.0.assets.style_path()
    }

    /// The address of the icon for tabs: the operator's logo, or ours.
    pub fn icon(&self) -> &str {
        self.brand().logo.unwrap_or_else(|| self.pages.0.assets.icon_path())
    }

    /// The address of the script.
    pub fn script(&self) -> &str {
        self.pages.0.assets.script_path()
    }
}
