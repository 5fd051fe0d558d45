//! `[billing]` and `[billing.tax]`: what pages of the processor ask for besides a card, and which
//! documents customers get.

use processor_client::CheckoutQuestions;

use super::ConfigProblem;

/// How things are sold, for all packs, plans and slots.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct BillingSection {
    /// Whether customers may enter promotion codes.
    pub promotion_codes: bool,
    /// Whether packs that are bought on a page get an invoice.
    pub pack_invoices: bool,
    /// Seconds for which a customer's invoices are not listed at the processor again.
    pub invoices_refresh_s: i64,
    /// Tax and companies.
    pub tax: TaxSection,
}

/// `[billing.tax]`: tax, and what is collected for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct TaxSection {
    /// Whether the processor computes tax and adds it.
    pub automatic: bool,
    /// Whether a billing address is required.
    pub billing_address: bool,
    /// Whether companies may enter a tax id.
    pub tax_ids: bool,
}

impl BillingSection {
    /// What pages ask for besides a card.
    pub const fn questions(&self) -> CheckoutQuestions {
        CheckoutQuestions {
            automatic_tax: self.tax.automatic,
            billing_address: self.tax.billing_address,
            tax_ids: self.tax.tax_ids,
            promotion_codes: self.promotion_codes,
        }
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        if !(60..=86_400).contains(&self.invoices_refresh_s) {
            let key = "billing.invoices_refresh_s";
            problems.push(ConfigProblem::new(key, "must be 60 to 86,400"));
        }
    }
}

impl TaxSection {
    /// Whether customers enter what identifies them for tax, so that they must be able to change
    /// it.
    pub const fn asks_companies(self) -> bool {
        self.automatic || self.billing_address || self.tax_ids
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn by_default_pages_ask_for_a_card_only() {
        let billing = Config::from_toml("").unwrap().billing;

        assert_eq!(billing.questions(), CheckoutQuestions::default());
        assert!(!billing.pack_invoices && !billing.tax.asks_companies());
    }

    #[test]
    fn a_page_asks_for_what_is_switched_on() {
        let toml =
            "[billing]\npromotion_codes = true\n[billing.tax]\nautomatic = true\ntax_ids = true";
        let billing = Config::from_toml(toml).unwrap().billing;

        let asks = CheckoutQuestions {
            automatic_tax: true,
            billing_address: false,
            tax_ids: true,
            promotion_codes: true,
        };
        assert_eq!(billing.questions(), asks);
        let problems = Config::from_toml("[billing]\ninvoices_refresh_s = 1").unwrap().problems();
        assert_eq!(problems[0].key, "billing.invoices_refresh_s");
    }
}
