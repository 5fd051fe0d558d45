//! Whether a request may be sent again after a platform's response (`docs/money.md`, "What happens
//! to a write").

use crate::method::Method;

/// What a platform's status says, apart from the charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlatformStatus {
    /// The status, 200 to 599.
    pub status: u16,
    /// Whether it came with `Retry-After`.
    pub has_retry_after: bool,
}

impl PlatformStatus {
    /// Whether the platform says that it did nothing and that the request may be sent again: with
    /// other credentials after a 401, otherwise unchanged. The request's `Idempotency-Key` can then
    /// be used again.
    pub const fn is_not_carried_out(self) -> bool {
        self.status == 401 || self.is_cured_by_repeating()
    }

    /// Whether to send the same request again: a read after every transient failure, a write only
    /// if the platform says that it did not carry it out.
    pub const fn should_retry(self, method: Method) -> bool {
        self.is_cured_by_repeating() || (method.is_read() && self.status >= 500)
    }

    const fn is_cured_by_repeating(self) -> bool {
        matches!(self.status, 408 | 421 | 425 | 429) || (self.status == 503 && self.has_retry_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn answered(status: u16) -> PlatformStatus {
        PlatformStatus { status, has_retry_after: false }
    }

    #[test]
    fn a_write_is_retried_only_if_the_platform_says_it_did_nothing() {
        for status in [408, 421, 425, 429] {
            assert!(answered(status).should_retry(Method::Post), "{status}");
            assert!(answered(status).is_not_carried_out(), "{status}");
        }
        for status in [200, 302, 400, 403, 404, 409, 422, 500, 502, 503, 504] {
            assert!(!answered(status).should_retry(Method::Post), "{status}");
            assert!(!answered(status).is_not_carried_out(), "{status}");
        }
        let announced = PlatformStatus { status: 503, has_retry_after: true };
        assert!(announced.should_retry(Method::Delete) && announced.is_not_carried_out());
    }

    #[test]
    fn a_read_is_retried_after_every_transient_failure() {
        for status in [408, 421, 425, 429, 500, 502, 503, 504, 599] {
            assert!(answered(status).should_retry(Method::Get), "{status}");
        }
        for status in [200, 304, 400, 401, 403, 404, 410, 422] {
            assert!(!answered(status).should_retry(Method::Get), "{status}");
        }
    }

    #[test]
    fn a_401_did_nothing_and_is_not_retried() {
        for method in [Method::Get, Method::Post] {
            assert!(!answered(401).should_retry(method));
        }
        assert!(answered(401).is_not_carried_out());
    }
}
