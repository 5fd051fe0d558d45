//! The HTTP methods of native requests.

use crate::wire::text_enum;

text_enum! {
    /// A method that a native request may have (specification 4.2); everything else is refused.
    Method, "one of GET, POST, PUT, PATCH, DELETE" {
        /// A read: costs as one, needs no full key, may be tried again.
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
