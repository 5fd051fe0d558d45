//! What the documentation is made from.

use std::sync::{Arc, OnceLock};

use catalog::Catalog;
use failures::Failure;
use pages::PagesState;
use serde_json::Value;
use settings::Config;
use tokio::sync::OnceCell;
use tokio::task::JoinError;
use web::error::ApiError;

use crate::costly_work::CostlyWork;
use crate::documents::{DOCUMENTS, PublishedDocument};
use crate::markdown::{self, RenderedDocument};
use crate::operations::model::OperationBook;
use crate::search::SearchIndex;

/// The documentation of one service. Clones share it.
#[derive(Clone)]
pub struct ReferenceState(Arc<SharedReference>);

/// What the documentation is made from.
pub struct ReferenceParts {
    /// The look of pages.
    pub pages: PagesState,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The routes of the platforms.
    pub catalog: Arc<Catalog>,
    /// Makes the OpenAPI document of the service's own routes. It takes a while, so it is called
    /// once, beside the control runtime.
    pub contract: Arc<dyn Fn() -> Value + Send + Sync>,
}

struct SharedReference {
    parts: ReferenceParts,
    /// Each document, rendered at the first request for it.
    rendered: Vec<OnceLock<RenderedDocument>>,
    operations: OnceCell<Arc<OperationBook>>,
    index: OnceCell<Arc<SearchIndex>>,
    costly: CostlyWork,
}

impl ReferenceState {
    /// Nothing is rendered yet.
    pub fn new(parts: ReferenceParts) -> Self {
        let rendered = DOCUMENTS.iter().map(|_| OnceLock::new()).collect();
        let (operations, index) = (OnceCell::new(), OnceCell::new());
        let costly = CostlyWork::default();
        Self(Arc::new(SharedReference { parts, rendered, operations, index, costly }))
    }

    pub(crate) fn pages(&self) -> &PagesState {
        &self.0.parts.pages
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.parts.config
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.0.parts.catalog
    }

    /// The address of the service, as its callers use it.
    pub(crate) fn base(&self) -> &str {
        self.config().http.public_base_url.trim_end_matches('/')
    }

    /// A document as HTML. The place is that in the list of documents.
    pub(crate) fn rendered(
        &self,
        place: usize,
        document: &PublishedDocument,
    ) -> Option<&RenderedDocument> {
        let slot = self.0.rendered.get(place)?;
        Some(slot.get_or_init(|| markdown::render(document)))
    }

    /// The title of a document.
    pub(crate) fn title(&self, document: &PublishedDocument) -> &str {
        let place = DOCUMENTS.iter().position(|known| known.slug == document.slug);
        let rendered = place.and_then(|place| self.rendered(place, document));
        rendered.map_or(document.slug, |rendered| &rendered.title)
    }

    /// Work whose cost grows with what a visitor asks for.
    pub(crate) fn costly(&self) -> &CostlyWork {
        &self.0.costly
    }

    /// Every operation of the API.
    pub(crate) async fn operations(&self) -> Result<Arc<OperationBook>, ApiError> {
        let contract = Arc::clone(&self.0.parts.contract);
        let base = self.base().to_owned();
        let make = move || OperationBook::read(&contract(), &base);
        self.0.operations.get_or_try_init(|| beside(make)).await.cloned()
    }

    /// What the search looks through.
    pub(crate) async fn index(&self) -> Result<Arc<SearchIndex>, ApiError> {
        let operations = self.operations().await?;
        let reference = self.clone();
        let make = move || SearchIndex::of(&reference, &operations);
        self.0.index.get_or_try_init(|| beside(make)).await.cloned()
    }
}

/// Computes something that takes a while without holding up other requests.
async fn beside<T: Send + Sync + 'static>(
    make: impl FnOnce() -> T + Send + 'static,
) -> Result<Arc<T>, ApiError> {
    tokio::task::spawn_blocking(move || Arc::new(make())).await.map_err(not_made)
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes it so")]
pub(crate) fn not_made(error: JoinError) -> ApiError {
    let what = format!("a part of the documentation was not made: {error}");
    ApiError::Failure(Failure::Internal(what))
}
