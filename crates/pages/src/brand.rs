//! Whose pages they are: the operator's name, logo and addresses (`[brand]`).

use settings::Config;

/// The operator, as pages show it. Nothing is shown in place of what is missing.
#[derive(Debug, Clone, Default)]
pub struct PageBrand {
    /// The name of the service.
    pub name: String,
    /// The address of the logo.
    pub logo: Option<&'static str>,
    /// Who operates the service.
    pub operator: Option<String>,
    /// The links at the end of pages, in their order.
    pub links: Vec<BrandLink>,
    /// One line at the top of all pages.
    pub announcement: Option<String>,
}

/// A link of the operator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrandLink {
    /// Its text.
    pub word: &'static str,
    /// Where it leads: a page, or `mailto:`.
    pub address: String,
}

impl PageBrand {
    /// As configured.
    pub fn of(config: &Config) -> Self {
        let brand = &config.brand;
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let support =
            given(&brand.support_url).or(brand.support().map(|to| format!("mailto:{to}")));
        let links = [
            ("Contact support", support),
            ("Terms", given(&brand.terms_url)),
            ("Privacy", given(&brand.privacy_url)),
            ("Status", given(&brand.status_url)),
        ];
        let link = |(word, address): (_, Option<_>)| Some(BrandLink { word, address: address? });
        Self {
            name: brand.name.clone(),
            logo: brand.logo_path(),
            operator: given(&brand.operator),
            links: links.into_iter().filter_map(link).collect(),
            announcement: given(&brand.announcement),
        }
    }

    /// Whether there is anything to say at the end of a page.
    pub fn has_footer(&self) -> bool {
        self.operator.is_some() || !self.links.is_empty()
    }
}
