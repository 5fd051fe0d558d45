//! Native paths whose slashes were percent-encoded.
//!
//! Generated clients treat `native_path`, and a parameter that spans several segments, as one
//! value, and encode its slashes. Such a path is read as it was meant where only one reading is
//! possible; any other encoded slash is refused later, because platforms disagree about its
//! meaning.

use catalog::PlatformCatalog;
use domain::method::Method;
use platform_client::path;

/// The path that was meant, if slashes were encoded that should not have been:
///
/// * all of them, so that the path has no slash: it is listed without the encoding, and not with
///   it;
/// * those in the parameter of a listed route that spans several segments.
///
/// Only `%2F` is decoded, and only once. The path has passed the checks of every path, which allow
/// no reading of it with empty segments or segments of dots; what comes out is checked again.
pub(super) fn meant(catalog: &PlatformCatalog, method: Method, raw: &str) -> Option<String> {
    // Most paths have nothing encoded.
    if raw.contains('%') { meant_by_encoded(catalog, method, raw) } else { None }
}

#[cold]
fn meant_by_encoded(catalog: &PlatformCatalog, method: Method, raw: &str) -> Option<String> {
    if path::encoded_slashes(raw) == 0 {
        return None;
    }
    let meant = match catalog.find(method, raw) {
        Some(found) => {
            let name = found.route.spanning_parameter()?;
            let (_, value) = found.parameters.iter().find(|(known, _)| *known == name)?;
            let before = raw.strip_suffix(value)?;
            let meant = format!("{before}{}", decoded(value));
            let again = catalog.find(method, &meant)?;
            (again.route.name == found.route.name).then_some(meant)?
        }
        None if raw.contains('/') => return None,
        None => {
            let meant = decoded(raw);
            let is_upload = catalog.is_upload(method, &meant);
            (is_upload || catalog.find(method, &meant).is_some()).then_some(meant)?
        }
    };
    path::check_path(&meant).is_ok().then_some(meant)
}

/// The text with its encoded slashes decoded, once.
fn decoded(raw: &str) -> String {
    raw.replace("%2F", "/").replace("%2f", "/")
}

#[cfg(test)]
mod tests {
    use catalog::Catalog;
    use domain::platform::Platform;

    use super::*;

    fn read(platform: Platform, method: Method, raw: &str) -> Option<String> {
        meant(Catalog::built_in().unwrap().platform(platform), method, raw)
    }

    #[test]
    fn a_listed_path_is_read_as_it_was_meant() {
        for (platform, method, raw, expected) in [
            (Platform::ALPHA, Method::Get, "users%2Fme", "users/me"),
            (Platform::ALPHA, Method::Get, "chats%2f7%2Fmessages", "chats/7/messages"),
            (Platform::ALPHA, Method::Post, "lists%2Fusers", "lists/users"),
            (
                Platform::ALPHA,
                Method::Get,
                "chats%2F50%25%20off%2Fmessages",
                "chats/50%25%20off/messages",
            ),
            (
                Platform::ALPHA,
                Method::Get,
                "giphy/proxy/gifs%2Ftrending",
                "giphy/proxy/gifs/trending",
            ),
            (
                Platform::ALPHA,
                Method::Get,
                "giphy%2Fproxy%2Fgifs%2Ftrending",
                "giphy/proxy/gifs/trending",
            ),
            (Platform::GAMMA, Method::Post, "media%2Fupload", "media/upload"),
        ] {
            assert_eq!(read(platform, method, raw).as_deref(), Some(expected), "{raw}");
        }
    }

    #[test]
    fn every_other_path_stays_as_it_is() {
        for (platform, raw) in [
            // Nothing is encoded, or no slash is.
            (Platform::ALPHA, "users/me"),
            (Platform::GAMMA, "me"),
            (Platform::ALPHA, "chats/50%25%20off/messages"),
            // Some slashes are, and some are not.
            (Platform::ALPHA, "chats%2F7/messages"),
            (Platform::ALPHA, "chats/7%2Fmessages"),
            // It is not listed.
            (Platform::ALPHA, "unheard%2Fof"),
            (Platform::ALPHA, "users%2Fme%2Fsettings%2Fall"),
            (Platform::DELTA, "users%2Fme"),
            // A name with a slash.
            (Platform::DELTA, "creators/7/vault/folders/A%2FB"),
            // Encoded twice.
            (Platform::ALPHA, "users%252Fme"),
            (Platform::ALPHA, "users%25%32%46me"),
        ] {
            assert_eq!(read(platform, Method::Get, raw), None, "{raw}");
        }
    }

    #[test]
    fn nothing_that_climbs_or_leads_elsewhere_is_decoded() {
        for raw in [
            "users%2F..%2Fme",
            "..%2Fusers%2Fme",
            "users%2F%2E%2E%2Fme",
            "%2Fusers%2Fme",
            "%2F%2Fusers%2Fme",
            "users%2F%2Fme",
            "users%2Fme%2F",
            "https%3A%2F%2Fevil.example%2Fusers%2Fme",
            "chats%2F..%2Fmessages",
            "chats%2F.%2Fmessages",
            "chats%2F%2Fmessages",
            "giphy/proxy/..%2F..%2Fusers",
            "giphy/proxy/%2Fevil.example",
            "giphy/proxy/a%2F%2Fb",
            "giphy/proxy/a%2F",
        ] {
            assert_eq!(read(Platform::ALPHA, Method::Get, raw), None, "{raw}");
        }
    }

    /// A catalogue may have a route of one segment, which an encoded path fits as well.
    #[test]
    fn a_path_with_two_readings_stays_as_it_is() {
        let route = "[[routes]]\nmethod = \"GET\"\ntemplate = \"{word}\"\n";
        let catalog = Catalog::built_in().unwrap().with_extra(Platform::ALPHA, route).unwrap();

        assert_eq!(meant(catalog.platform(Platform::ALPHA), Method::Get, "users%2Fme"), None);
        assert!(meant(catalog.platform(Platform::ALPHA), Method::Post, "lists%2Fusers").is_some());
    }
}
