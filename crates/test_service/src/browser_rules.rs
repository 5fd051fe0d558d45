//! Checks of every response that any test receives: what browsers must be told, whatever it is.
//!
//! The tests' client calls this after each request, so that no response of the service, of whatever
//! route, comes without these headers.

use crate::Reply;

/// What no policy may leave out: `base-uri` and `frame-ancestors` do not follow `default-src`.
const DIRECTIVES: [&str; 4] =
    ["default-src 'none'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"];

/// Panics if a browser could misread this response, or give its cookies away.
pub(crate) fn assert_kept(method: &str, target: &str, reply: &Reply) {
    if reply.header("x-request-id").is_empty() {
        // It comes from a simulator: every response of the service has an id.
        return;
    }
    let at = format!("{method} {target} ({})", reply.status);
    let policy: Vec<_> = reply.header("content-security-policy").split("; ").collect();
    for directive in DIRECTIVES {
        assert!(policy.contains(&directive), "{at} has the policy {policy:?}");
    }
    assert_eq!(reply.header("x-content-type-options"), "nosniff", "{at}");
    assert!(!reply.header("referrer-policy").is_empty(), "{at} has no Referrer-Policy");
    // A platform's own body has the type that the platform gave it.
    if !is_of_platform(target, reply) {
        assert_described(&at, reply);
    }
    for cookie in reply.headers.get_all("set-cookie") {
        assert_safe(&at, cookie.to_str().unwrap());
    }
}

fn is_of_platform(target: &str, reply: &Reply) -> bool {
    let is_call = target.contains("/native/") || target.contains("/media/upload");
    is_call && reply.header("x-error-source") != "gateway"
}

/// A body has a type, and a text its charset.
fn assert_described(at: &str, reply: &Reply) {
    let kind = reply.header("content-type");
    let is_text = kind.starts_with("text/") || kind.contains("+xml") || kind.contains("/xml");
    assert!(!is_text || kind.contains("charset=utf-8"), "{at} is {kind}");
    assert!(reply.body.is_empty() || !kind.is_empty(), "{at} has a body without a type");
}

/// Scripts cannot read a cookie and other sites cannot send it; over https no other host can set
/// it.
fn assert_safe(at: &str, cookie: &str) {
    let (name, _) = cookie.split_once('=').unwrap();
    let attributes: Vec<_> = cookie.split("; ").skip(1).collect();
    for needed in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(attributes.contains(&needed), "{at} sets {cookie}");
    }
    let is_secure = attributes.contains(&"Secure");
    assert_eq!(is_secure, name.starts_with("__Host-"), "{at} sets {cookie}");
}
