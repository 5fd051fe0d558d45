//! Where a form is sent, with the hidden fields that make it ours.

use crate::visitor::ConsoleVisitor;

/// A form that changes something: its path, its token, and the key that lets it take effect once.
pub struct FormTarget {
    /// Where it is sent.
    pub path: String,
    /// The token for that path.
    pub token: String,
    /// The value of the field `key`; empty for a form that may take effect again.
    pub key: String,
}

impl FormTarget {
    /// A form that may be sent again, such as one that sets a value.
    pub fn new(visitor: &ConsoleVisitor, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { token: visitor.token(&path), path, key: String::new() }
    }

    /// A form that takes effect once, however often it is sent.
    pub fn once(visitor: &ConsoleVisitor, path: impl Into<String>) -> Self {
        Self { key: visitor.new_idempotency_key(), ..Self::new(visitor, path) }
    }
}
