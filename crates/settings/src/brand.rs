//! `[brand]`: whose service it is, in emails and on pages.

use std::path::PathBuf;

use super::problem::ConfigProblem;

/// The largest logo, in bytes.
const LOGO_BYTES_MAX: u64 = 262_144;
/// The image formats that browsers and mail programs show, by the ending of the file's name.
const LOGO_TYPES: [(&str, &str); 6] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
];

/// Whose service it is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct BrandSection {
    /// The name of the service.
    pub name: String,
    /// Where customers get help. Empty: no address is shown.
    pub support_email: String,
    /// An image file. Empty: only the name is shown.
    pub logo_file: PathBuf,
    /// The color of buttons and links, as `#rrggbb`.
    pub color: String,
    /// The color of text on it.
    pub text_color: String,
}

/// A logo, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrandLogo {
    /// The media type.
    pub media_type: &'static str,
    /// The file.
    pub bytes: Vec<u8>,
}

impl BrandSection {
    /// The path of the logo below `http.public_base_url`; none without a logo.
    pub fn logo_path(&self) -> Option<&'static str> {
        (!self.logo_file.as_os_str().is_empty()).then_some("/console/logo")
    }

    /// The support address; none if there is none.
    pub fn support(&self) -> Option<&str> {
        (!self.support_email.is_empty()).then_some(self.support_email.as_str())
    }

    /// Reads the logo; none if there is none.
    pub fn logo(&self) -> Result<Option<BrandLogo>, ConfigProblem> {
        const KEY: &str = "brand.logo_file";
        if self.logo_path().is_none() {
            return Ok(None);
        }
        let ending = self.logo_file.extension().and_then(|ending| ending.to_str());
        let ending = ending.unwrap_or_default().to_ascii_lowercase();
        let known = LOGO_TYPES.iter().find(|(one, _)| *one == ending);
        let Some((_, media_type)) = known else {
            let message = "must be a png, jpg, gif, webp or svg file";
            return Err(ConfigProblem::new(KEY, message));
        };
        let unreadable =
            |error: std::io::Error| ConfigProblem::new(KEY, format!("cannot be read: {error}"));
        let about = std::fs::metadata(&self.logo_file).map_err(unreadable)?;
        if !about.is_file() || about.len() > LOGO_BYTES_MAX {
            return Err(ConfigProblem::new(KEY, "must be a file of at most 262,144 bytes"));
        }
        let bytes = std::fs::read(&self.logo_file).map_err(unreadable)?;
        Ok(Some(BrandLogo { media_type, bytes }))
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let length = self.name.chars().count();
        if !(1..=60).contains(&length) || self.name.chars().any(char::is_control) {
            let message = "must be 1 to 60 characters on one line";
            problems.push(ConfigProblem::new("brand.name", message));
        }
        if let Some(address) = self.support()
            && address.parse::<domain::customer::Email>().is_err()
        {
            let message = "must be empty or an address such as help@example.com";
            problems.push(ConfigProblem::new("brand.support_email", message));
        }
        for (key, color) in [("color", &self.color), ("text_color", &self.text_color)] {
            if !is_color(color) {
                let message = "must be a color such as #1f5fbf";
                problems.push(ConfigProblem::new(format!("brand.{key}"), message));
            }
        }
        problems.extend(self.logo().err());
    }
}

fn is_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or_default();
    digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn problems(toml: &str) -> Vec<String> {
        let config = Config::from_toml(&format!("[brand]\n{toml}")).unwrap();
        config.problems().into_iter().map(|problem| problem.key).collect()
    }

    #[test]
    fn wrong_values_are_problems() {
        for (toml, key) in [
            ("name = \"\"", "brand.name"),
            ("name = \"a\\nb\"", "brand.name"),
            ("support_email = \"help\"", "brand.support_email"),
            ("color = \"blue\"", "brand.color"),
            ("color = \"#12345\"", "brand.color"),
            ("text_color = \"#ffffff;}\"", "brand.text_color"),
            ("logo_file = \"logo.txt\"", "brand.logo_file"),
            ("logo_file = \"no/such/logo.png\"", "brand.logo_file"),
        ] {
            assert_eq!(problems(toml), [key], "{toml}");
        }
        assert_eq!(problems("name = \"Acme\"\nsupport_email = \"help@acme.example\""), [""; 0]);
    }

    #[test]
    fn a_logo_is_read_with_its_type_and_has_a_largest_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logo.SVG");
        std::fs::write(&path, "<svg/>").unwrap();
        let of = |file: &std::path::Path| {
            let toml = format!("[brand]\nlogo_file = {:?}", file.display().to_string());
            Config::from_toml(&toml).unwrap().brand
        };

        let logo = of(&path).logo().unwrap().unwrap();

        assert_eq!((logo.media_type, logo.bytes.as_slice()), ("image/svg+xml", &b"<svg/>"[..]));
        std::fs::write(&path, vec![b' '; 262_145]).unwrap();
        assert!(of(&path).logo().is_err());
    }
}
