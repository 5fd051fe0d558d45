//! Staff: customers who may act for other customers, and the operator's own people.

use crate::wire::{text_enum, written_as_text};

text_enum! {
    /// What staff may do.
    Permission, "one of support.read, data-export.manage, customers.read, customers.write, billing.write" {
        /// View calls, exports and usage of customers who allow it at the time.
        SupportRead = "support.read",
        /// Also remove exports of such customers (specification 5.2).
        DataExportManage = "data-export.manage",
        /// View every customer on the admin listener.
        CustomersRead = "customers.read",
        /// Suspend, resume and erase customers on the admin listener.
        CustomersWrite = "customers.write",
        /// Refund, grant and settle payments on the admin listener.
        BillingWrite = "billing.write",
    }
}

impl Permission {
    /// The permissions that viewing a customer's data requires.
    pub const TO_LOOK: &'static [Self] = &[Self::SupportRead];
    /// The permissions that removing a customer's export requires.
    pub const TO_MANAGE_EXPORTS: &'static [Self] = &[Self::SupportRead, Self::DataExportManage];
    /// The permissions that an operator's view of customers requires.
    pub const TO_VIEW_CUSTOMERS: &'static [Self] = &[Self::CustomersRead];
    /// The permissions that an operator's change of a customer requires.
    pub const TO_CHANGE_CUSTOMERS: &'static [Self] = &[Self::CustomersWrite];
    /// The permissions that moving a customer's money or credits requires.
    pub const TO_MOVE_MONEY: &'static [Self] = &[Self::BillingWrite];
    /// The permissions that changing a customer and its money at once requires.
    pub const TO_CHANGE_AND_MOVE_MONEY: &'static [Self] =
        &[Self::CustomersWrite, Self::BillingWrite];
}

/// The name of the person who carries out an operator's work, for the audit list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorName(String);

/// A text that cannot be an operator's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to 64 letters, digits, `.`, `-`, `_` or `@`")]
pub struct InvalidOperatorName;

impl OperatorName {
    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for OperatorName {
    type Err = InvalidOperatorName;

    fn from_str(text: &str) -> Result<Self, InvalidOperatorName> {
        let is_plain =
            |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '-' | '_' | '@');
        let length = text.chars().count();
        if (1..=64).contains(&length) && text.chars().all(is_plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidOperatorName)
        }
    }
}

written_as_text!(OperatorName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_name_is_short_and_plain() {
        for good in ["grace", "Grace.Hopper", "grace@example.com", "günter-1_b"] {
            assert_eq!(good.parse().as_ref().map(OperatorName::as_str), Ok(good));
        }
        for bad in ["", " ", "a b", "a\nb", "a:b", "a\"b", &"a".repeat(65)] {
            assert_eq!(bad.parse::<OperatorName>(), Err(InvalidOperatorName), "{bad}");
        }
    }
}
