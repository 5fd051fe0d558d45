//! The theme that a visitor chose: a cookie, so that the server writes it into the page and nothing
//! flashes in the wrong colors.

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

/// The cookie's name over https, where no other host can set it, and elsewhere. It holds no secret.
const COOKIE_NAMES: [&str; 2] = ["__Host-theme", "theme"];
/// A year, in seconds.
const KEPT_FOR_S: u32 = 31_536_000;

/// Light, dark, or as the visitor's system has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PageTheme {
    /// As the system.
    #[default]
    Auto,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

impl PageTheme {
    /// The theme in the cookie of these headers.
    pub fn of(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs: Vec<_> = lines.flat_map(|line| line.split(';')).map(str::trim).collect();
        let value_of =
            |name| pairs.iter().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        COOKIE_NAMES.into_iter().find_map(value_of).and_then(Self::parse).unwrap_or_default()
    }

    /// The theme with this name; none if there is none.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Auto, Self::Light, Self::Dark].into_iter().find(|theme| theme.name() == name)
    }

    /// Its name, in forms and in the cookie.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// The value of `data-theme`; none where the system decides.
    pub const fn attribute(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Light | Self::Dark => Some(self.name()),
        }
    }

    /// `Set-Cookie` that keeps the choice for a year; `is_secure`: it is sent over https only.
    pub fn cookie(self, is_secure: bool) -> HeaderValue {
        let [over_https, elsewhere] = COOKIE_NAMES;
        let (name, secure) = if is_secure { (over_https, "; Secure") } else { (elsewhere, "") };
        let text = format!(
            "{name}={}; Path=/; Max-Age={KEPT_FOR_S}; HttpOnly; SameSite=Lax{secure}",
            self.name()
        );
        HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("theme=auto"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_secure_where_the_service_is() {
        let text = |is_secure| PageTheme::Dark.cookie(is_secure).to_str().unwrap().to_owned();

        let plain = "theme=dark; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax";
        assert_eq!(text(false), plain);
        assert_eq!(text(true), format!("__Host-{plain}; Secure"));
    }

    fn theme(cookie: &'static str) -> PageTheme {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_static(cookie));
        PageTheme::of(&headers)
    }

    #[test]
    fn the_cookie_decides_and_anything_else_is_left_to_the_system() {
        assert_eq!(theme("theme=dark"), PageTheme::Dark);
        assert_eq!(theme("session=x; theme=light"), PageTheme::Light);
        assert_eq!(theme("theme=light; __Host-theme=dark"), PageTheme::Dark);
        assert_eq!(theme("theme=\"><script>"), PageTheme::Auto);
        assert_eq!(theme("mytheme=dark"), PageTheme::Auto);
        assert_eq!(PageTheme::of(&HeaderMap::new()), PageTheme::Auto);
        assert_eq!(PageTheme::Auto.attribute(), None);
        assert_eq!(PageTheme::Dark.attribute(), Some("dark"));
    }
}
