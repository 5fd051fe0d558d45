//! What the pages use.

use std::sync::Arc;

use axum::extract::FromRef;
use billing::BillingState;
use emails::EmailsState;
use identity::IdentityState;
use pages::PagesState;
use runtime::clock::Random;
use settings::Config;
use settings::brand_logo::BrandLogo;
use store::Store;
use web::WebState;

use crate::service::ServiceRoutes;

/// What the pages use.
#[derive(Clone)]
pub struct ConsoleState {
    /// Stores customers.
    pub store: Store,
    /// Makes the values that let a form take effect once.
    pub random: Random,
    /// The routes of the service.
    pub routes: Arc<dyn ServiceRoutes>,
    /// The look of pages.
    pub pages: PagesState,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The HTTP edge.
    pub web: WebState,
    /// Handles emailed links.
    pub identity: IdentityState,
    /// Confirms payments that a bank asks about.
    pub billing: BillingState,
    /// Opens the links to payments.
    pub emails: EmailsState,
    /// The operator's logo, as it was at the start; none without one.
    pub logo: Option<Arc<BrandLogo>>,
}

impl FromRef<ConsoleState> for WebState {
    fn from_ref(console: &ConsoleState) -> Self {
        console.web.clone()
    }
}
