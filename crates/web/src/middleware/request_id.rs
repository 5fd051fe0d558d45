//! The id of a request: the caller's own if it is harmless, otherwise a new one.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header with the id, in requests and responses.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The most characters of an id that a caller sends.
const LENGTH_MAX: usize = 64;

/// The id of one request, for responses, logs and problems. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLabel(HeaderValue);

impl RequestLabel {
    /// The caller's id if there is exactly one, of 1 to 64 letters, digits, `-` and `_`; otherwise
    /// the one that `make` returns, which must have the same form.
    pub fn of<T: std::fmt::Display>(headers: &HeaderMap, make: impl FnOnce() -> T) -> Self {
        let mut given = headers.get_all(X_REQUEST_ID).iter();
        match (given.next(), given.next()) {
            (Some(value), None) if is_harmless(value.as_bytes()) => Self(value.clone()),
            _ => Self(made(make().to_string())),
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// Adds it to a response.
    pub fn put(&self, headers: &mut HeaderMap) {
        headers.insert(X_REQUEST_ID, self.0.clone());
    }
}

fn is_harmless(bytes: &[u8]) -> bool {
    (1..=LENGTH_MAX).contains(&bytes.len())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn made(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("unprintable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(values: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(X_REQUEST_ID, HeaderValue::from_str(value).unwrap());
        }
        RequestLabel::of(&headers, || "req_new").as_str().to_owned()
    }

    #[test]
    fn a_harmless_id_of_the_caller_is_kept() {
        let longest = "a".repeat(64);
        for id in ["a", "Order-17_b", longest.as_str()] {
            assert_eq!(label(&[id]), id);
        }
    }

    #[test]
    fn any_other_id_is_replaced() {
        let too_long = "a".repeat(65);
        for id in ["", "a b", "a\"b", "a;b", "é", "<script>", too_long.as_str()] {
            assert_eq!(label(&[id]), "req_new", "{id}");
        }
        assert_eq!(label(&[]), "req_new");
        assert_eq!(label(&["a", "b"]), "req_new");
    }

    #[test]
    fn the_response_has_the_id_once() {
        let mut headers = HeaderMap::new();
        headers.insert(X_REQUEST_ID, HeaderValue::from_static("from-a-platform"));

        RequestLabel::of(&HeaderMap::new(), || "req_new").put(&mut headers);

        assert_eq!(headers.get_all(X_REQUEST_ID).iter().count(), 1);
        assert_eq!(headers.get(X_REQUEST_ID).unwrap(), "req_new");
    }
}
