//! The four platforms behind the gateway.

use crate::wire::text_enum;

text_enum! {
    /// A creator platform (specification, introduction); the neutral names are the wire values.
    Platform, "one of platform_alpha, platform_beta, platform_gamma, platform_delta" {
        /// Routes such as `users/me`; each has a group.
        Alpha = "platform_alpha",
        /// Responses in an envelope, signed requests.
        Beta = "platform_beta",
        /// Routes under `user/{id}/…`, with shorthands.
        Gamma = "platform_gamma",
        /// An official interface with OAuth scopes.
        Delta = "platform_delta",
    }
}
