//! The style and the script of all pages. Their addresses contain a hash of their content, so that
//! browsers cache them permanently, and fetch new ones after a new build or brand.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use settings::Config;
use settings::brand::BrandAccent;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("console.css");
const SCRIPT: &str = include_str!("console.js");
/// The mark of the sidebar, for tabs and bookmarks.
const ICON: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 22 22"><rect width="22" height="22" rx="5" fill="#0b6175"/><path d="M5 6h12v2.2H5zM5 13.8h12V16H5zM9.9 9.7h7.1v2.6H9.9zM5 9.7h2.6v2.6H5z" fill="#fff"/></svg>"##;
const SVG: &str = "image/svg+xml; charset=utf-8";
/// The line of the style that the operator's accent takes the place of.
const ACCENT: &str = "--accent: light-dark(#0b6175, #5fc0d5);";
const ICON_COLOR: &str = "#0b6175";
/// The folder of the files.
const FOLDER: &str = "/assets/";

/// A file that pages load.
struct AssetFile {
    path: String,
    media_type: &'static str,
    text: String,
}

/// The style, the script and the icon, with their addresses.
pub struct PageAssets {
    style: AssetFile,
    script: AssetFile,
    icon: AssetFile,
}

impl PageAssets {
    /// The files, with the operator's colors.
    pub fn new(config: &Config) -> Self {
        let BrandAccent { light, dark } = &config.brand.accent;
        let accent = format!("--accent: light-dark({light}, {dark});");
        let style = STYLE.replacen(ACCENT, &accent, 1);
        Self {
            style: AssetFile::new("css", "text/css; charset=utf-8", style),
            script: AssetFile::new("js", "text/javascript; charset=utf-8", SCRIPT.to_owned()),
            icon: AssetFile::new("svg", SVG, ICON.replacen(ICON_COLOR, light, 1)),
        }
    }

    /// The address of the style.
    pub fn style_path(&self) -> &str {
        &self.style.path
    }

    /// The address of the script.
    pub fn script_path(&self) -> &str {
        &self.script.path
    }

    /// The address of the icon.
    pub fn icon_path(&self) -> &str {
        &self.icon.path
    }

    /// The response with the file of this name, below `/assets/`. A name from an older build is not
    /// found: the page that asks for it is reloaded with the new one.
    pub fn respond(&self, name: &str) -> Option<Response> {
        let file = [&self.style, &self.script, &self.icon]
            .into_iter()
            .find(|file| file.path.strip_prefix(FOLDER) == Some(name))?;
        let headers = [
            (CONTENT_TYPE, file.media_type),
            (CACHE_CONTROL, "public, max-age=31536000, immutable"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        Some((StatusCode::OK, headers, file.text.clone()).into_response())
    }
}

impl AssetFile {
    fn new(ending: &str, media_type: &'static str, text: String) -> Self {
        let digest = hex::encode(Sha256::digest(text.as_bytes()));
        let hash = digest.get(..16).unwrap_or(&digest);
        Self { path: format!("{FOLDER}console-{hash}.{ending}"), media_type, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_hashed_names_alone() {
        let assets = PageAssets::new(&Config::from_toml("").unwrap());
        let style = assets.style_path().strip_prefix("/assets/").unwrap();

        let found = assets.respond(style).unwrap();

        assert_eq!(found.headers()[CONTENT_TYPE], "text/css; charset=utf-8");
        assert!(found.headers()[CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        assert!(assets.respond("console.css").is_none());
        assert!(assets.respond("").is_none());
    }

    #[test]
    fn the_operators_accent_is_in_the_style_and_in_its_address() {
        let own = Config::from_toml("[brand]\naccent.light = \"#aa0011\"").unwrap();
        let (own, usual) =
            (PageAssets::new(&own), PageAssets::new(&Config::from_toml("").unwrap()));

        assert!(own.style.text.contains("--accent: light-dark(#aa0011, #5fc0d5);"));
        assert!(own.icon.text.contains("#aa0011"));
        assert_ne!(own.style_path(), usual.style_path());
        assert_eq!(usual.style.text, STYLE);
    }

    /// Budgets of the design: 40 KiB and 12 KiB, readable and uncompressed.
    #[test]
    fn style_and_script_stay_small() {
        assert!(STYLE.len() <= 40 * 1024, "{}", STYLE.len());
        assert!(SCRIPT.len() <= 12 * 1024, "{}", SCRIPT.len());
    }
}
