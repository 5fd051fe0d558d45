//! Staff: customers who may act for other customers.

use crate::wire::text_enum;

text_enum! {
    /// What staff may do.
    Permission, "one of support.read, data-export.manage" {
        /// View calls, exports and usage of customers who allow it at the time.
        SupportRead = "support.read",
        /// Also remove exports of such customers (specification 5.2).
        DataExportManage = "data-export.manage",
    }
}

impl Permission {
    /// The permissions that viewing a customer's data requires.
    pub const TO_LOOK: &'static [Self] = &[Self::SupportRead];
    /// The permissions that removing a customer's export requires.
    pub const TO_MANAGE_EXPORTS: &'static [Self] = &[Self::SupportRead, Self::DataExportManage];
}
