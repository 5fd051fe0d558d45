//! Paths that the catalogue does not list, by their shape: `chats/7/notes` and `chats/8/notes` are
//! both `GET chats/{}/notes`.
//!
//! Usage is counted by route, so callers must not be able to create unlimited names: each customer
//! has a number of shapes per UTC day, and all further paths count as `unlisted`.

use std::collections::HashMap;
use std::sync::Arc;

use domain::id::CustomerId;
use domain::method::Method;
use domain::time::{Timestamp, UtcDay};
use parking_lot::Mutex;

use super::routes::KnownRoute;

/// The name of a path without a shape of its own.
const UNLISTED: &str = "unlisted";
/// The number of customers whose shapes are remembered; others start over.
const CUSTOMERS_MAX: usize = 2_000;
/// The longest shape, in bytes and in segments.
const SHAPE_BYTES_MAX: usize = 120;
const SEGMENTS_MAX: usize = 12;
/// The longest segment that counts as a word.
const WORD_BYTES_MAX: usize = 24;

/// The shapes that customers called recently.
pub struct UnlistedShapes {
    shapes_max: usize,
    customers: quick_cache::sync::Cache<CustomerId, Arc<Mutex<ShapesOfDay>>>,
    /// The route of all other paths.
    rest: Arc<KnownRoute>,
}

struct ShapesOfDay {
    day: UtcDay,
    routes: HashMap<String, Arc<KnownRoute>>,
}

impl UnlistedShapes {
    /// Remembers this number of shapes per customer and day.
    pub fn new(shapes_max: usize) -> Self {
        let customers = quick_cache::sync::Cache::new(CUSTOMERS_MAX);
        Self { shapes_max, customers, rest: Arc::new(KnownRoute::unlisted(UNLISTED)) }
    }

    /// The route under which a path is counted.
    pub(super) fn route(
        &self,
        customer: CustomerId,
        method: Method,
        path: &str,
        now: Timestamp,
    ) -> Arc<KnownRoute> {
        let Some(shape) = shape(path).filter(|_| self.shapes_max > 0) else {
            return Arc::clone(&self.rest);
        };
        let name = format!("{method} {shape}");
        let of_customer = self.of(customer, now.day());
        let mut shapes = of_customer.lock();
        if shapes.day != now.day() {
            *shapes = ShapesOfDay::new(now.day());
        }
        if let Some(known) = shapes.routes.get(&name) {
            return Arc::clone(known);
        }
        if shapes.routes.len() >= self.shapes_max {
            return Arc::clone(&self.rest);
        }
        let route = Arc::new(KnownRoute::unlisted(&name));
        shapes.routes.insert(name, Arc::clone(&route));
        route
    }

    /// The route of reads of our own that the catalogue does not list.
    pub(super) fn other(&self) -> Arc<KnownRoute> {
        Arc::clone(&self.rest)
    }

    fn of(&self, customer: CustomerId, day: UtcDay) -> Arc<Mutex<ShapesOfDay>> {
        let fresh =
            || Ok::<_, std::convert::Infallible>(Arc::new(Mutex::new(ShapesOfDay::new(day))));
        match self.customers.get_or_insert_with(&customer, fresh) {
            Ok(shapes) => shapes,
            Err(never) => match never {},
        }
    }
}

impl ShapesOfDay {
    fn new(day: UtcDay) -> Self {
        Self { day, routes: HashMap::new() }
    }
}

/// A path with its ids replaced; `None` if it is too long to be a route.
fn shape(path: &str) -> Option<String> {
    let mut shape = String::with_capacity(path.len());
    for (index, segment) in path.split('/').enumerate() {
        if index >= SEGMENTS_MAX {
            return None;
        }
        if index > 0 {
            shape.push('/');
        }
        shape.push_str(if segment.is_empty() || is_word(segment) { segment } else { "{}" });
    }
    (shape.len() <= SHAPE_BYTES_MAX).then_some(shape)
}

/// Whether a segment is a word of an API, such as `users`, `mark-as-read`, `v1` or `chatsByList`:
/// letters followed by up to two digits. Anything else (a number, a UUID, a hash, encoded text) is
/// an id.
fn is_word(segment: &str) -> bool {
    let letters = segment.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_plain = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-' | b'.');
    segment.len() <= WORD_BYTES_MAX
        && segment.len() - letters.len() <= 2
        && letters.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && letters.bytes().all(is_plain)
        && !is_mixed(letters)
}

/// Whether upper and lower case alternate as in random text. In words, at most one letter in three
/// is a capital.
fn is_mixed(letters: &str) -> bool {
    let capitals = letters.bytes().filter(u8::is_ascii_uppercase).count();
    capitals > 1 && capitals < letters.len() && capitals * 3 > letters.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_a_path_are_replaced() {
        for (path, expected) in [
            ("chats/8812/notes", "chats/{}/notes"),
            ("users/me/stats/overview", "users/me/stats/overview"),
            ("user/66f0a1bc9d/chatsByList", "user/{}/chatsByList"),
            ("media/0b9f8a2e-6a51-4d0c-9b1e-2f7f7a3c9e10", "media/{}"),
            ("api/v1/mark-as-read/", "api/v1/mark-as-read/"),
            ("x/top10/oauth2", "x/top10/oauth2"),
            ("files/AbQxYzRtKs", "files/{}"),
            ("files/a%20b/A@b", "files/{}/{}"),
            ("media/upload-url.json", "media/upload-url.json"),
            ("media/abcdefghijklmnopqrstuvwxyz", "media/{}"),
            ("q/2024-11-21", "q/{}"),
        ] {
            assert_eq!(shape(path).as_deref(), Some(expected), "{path}");
        }
        assert_eq!(shape(&"a/".repeat(20)), None);
        assert_eq!(shape(&"abcdefghijklmno/".repeat(9)), None);
    }

    #[test]
    fn shapes_per_customer_and_day_are_limited() {
        let shapes = UnlistedShapes::new(2);
        let start = Timestamp::from_unix_micros(0);
        let customer = |number| CustomerId::new(start, [number; 10]);
        let name = |of, path, at| {
            let route = shapes.route(of, Method::Get, path, at);
            route.name().to_string()
        };
        let own = |path| name(customer(1), path, start);

        assert_eq!(own("a/1"), "GET a/{}");
        assert_eq!(own("b"), "GET b");
        assert_eq!(own("c"), "unlisted");
        assert_eq!(own("a/2"), "GET a/{}");
        assert_eq!(name(customer(2), "c", start), "GET c");
        assert_eq!(name(customer(1), "c", start.plus_seconds(86_400)), "GET c");
        let route = shapes.route(customer(1), Method::Get, "a/1", start);
        assert_eq!(route.header(), "unlisted");
    }

    #[test]
    fn limit_of_zero_shapes_makes_every_path_unlisted() {
        let shapes = UnlistedShapes::new(0);
        let now = Timestamp::from_unix_micros(0);

        let route = shapes.route(CustomerId::new(now, [1; 10]), Method::Post, "a", now);

        assert_eq!(&**route.name(), "unlisted");
    }
}
