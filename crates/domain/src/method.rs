//! The HTTP methods of native requests.

use crate::wire::text_enum;

text_enum! {
    /// A method that a native request may have (specification 4.2); all others are refused.
    Method, "one of GET, POST, PUT, PATCH, DELETE" {
        /// A read: charged as a read, needs no full key, may be retried.
        Get = "GET",
        /// A write.
        Post = "POST",
        /// A write.
        Put = "PUT",
        /// A write.
        Patch = "PATCH",
        /// A write.
        Delete = "DELETE",
    }
}

impl Method {
    /// Whether a read-only key may use it, and whether it is charged as a read.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Get)
    }
}
