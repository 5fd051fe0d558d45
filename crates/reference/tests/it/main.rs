//! The documentation as browsers and programs get it, for a service with a contract of its own.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect must fail"
)]

mod contract;
mod documents;
mod frame;
mod operations;
mod platforms;
mod programs;
mod route_pages;
mod search;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request};
use pages::PagesState;
use reference::{ReferenceParts, ReferenceState};
use serde_json::Value;
use settings::Config;
use tower::ServiceExt as _;
use web::error::PendingFailure;

/// Two platforms, one of them with another price.
const CONFIG: &str = "
    [http]
    public_base_url = \"https://gateway.example\"
    [credits]
    read = 3
    write = 7
    [platforms.platform_alpha]
    base_url = \"https://alpha.example\"
    [platforms.platform_gamma]
    base_url = \"https://gamma.example\"";

/// The documentation of one service.
struct Docs(Router);

/// A response.
struct Answer {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Docs {
    fn new() -> Self {
        Self::of(CONFIG, Value::Null)
    }

    fn of(config: &str, contract: Value) -> Self {
        Self::with_contract(config, move || contract.clone())
    }

    /// The documentation of one platform that is called `own` and has this catalogue file alone.
    fn of_platform(file: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.toml");
        std::fs::write(&path, file).unwrap();
        let config = format!(
            "http.public_base_url = \"https://gateway.example/\"\n\
             [platforms.own]\nbase_url = \"https://own.example\"\ncatalog = '{}'",
            path.display()
        );
        Self::of(&config, Value::Null)
    }

    fn with_contract(config: &str, contract: impl Fn() -> Value + Send + Sync + 'static) -> Self {
        let config = Arc::new(Config::from_toml(config).unwrap());
        let catalog = settings::targets::catalogue(&config).unwrap();
        let parts = ReferenceParts {
            pages: PagesState::new(&config),
            config,
            catalog: Arc::new(catalog),
            contract: Arc::new(contract),
        };
        Self(reference::router().with_state(ReferenceState::new(parts)))
    }

    /// The response to a browser.
    async fn get(&self, path: &str) -> Answer {
        self.ask(path, "text/html,*/*;q=0.8").await
    }

    async fn ask(&self, path: &str, accept: &str) -> Answer {
        let request = Request::get(path).header("accept", accept).body(Body::empty()).unwrap();
        let response = self.0.clone().oneshot(request).await.unwrap();
        // The outermost layer of the service writes failures so.
        let failure = response.extensions().get::<PendingFailure>();
        let response = match failure {
            Some(failure) => web::error::render::render(&failure.0, "req_1", true),
            None => response,
        };
        let (head, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer { status: head.status.as_u16(), headers: head.headers, text }
    }

    /// The page at a path that must be there.
    async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8", "{path}");
        answer.text
    }
}

/// Asserts that a page has each of these parts.
fn assert_has(html: &str, parts: &[&str]) {
    for part in parts {
        assert!(html.contains(part), "{part}\n{html}");
    }
}

/// What stands between this and the next quote, wherever it occurs.
fn values<'a>(html: &'a str, before: &'a str) -> Vec<&'a str> {
    html.split(before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}
