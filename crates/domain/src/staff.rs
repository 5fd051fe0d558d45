//! Staff: customers who may do something for other customers.

use crate::wire::text_enum;

text_enum! {
    /// What staff may do.
    Permission, "one of support.read, data-export.manage" {
        /// Look at calls, exports and usage of customers who allow it at the time.
        SupportRead = "support.read",
        /// Remove exports of such customers besides (specification 5.2).
        DataExportManage = "data-export.manage",
    }
}

impl Permission {
    /// What it takes to look at a customer's things.
    pub const TO_LOOK: &'static [Self] = &[Self::SupportRead];
    /// What it takes to remove a customer's export.
    pub const TO_MANAGE_EXPORTS: &'static [Self] = &[Self::SupportRead, Self::DataExportManage];
}
