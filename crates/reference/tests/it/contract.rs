//! When the contract of the service is made, and what happens where it cannot be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::{CONFIG, Docs};

/// A contract that cannot be made at first, and the number of attempts to make it.
fn failing(times: usize) -> (Docs, Arc<AtomicUsize>) {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let docs = Docs::with_contract(CONFIG, move || {
        let before = counted.fetch_add(1, Ordering::SeqCst);
        assert!(before >= times, "the contract cannot be made: secret detail");
        json!({"tags": [{"name": "things"}], "paths": {"/v1/things": {"get": {"tags": ["things"],
               "operationId": "list_things"}}}})
    });
    (docs, attempts)
}

#[tokio::test]
async fn the_contract_is_made_at_the_first_request_that_needs_it_and_never_again() {
    let (docs, attempts) = failing(0);
    for path in ["/docs", "/docs/credits", "/docs/platforms", "/docs/errors.md", "/llms.txt"] {
        assert_eq!(docs.get(path).await.status, 200, "{path}");
    }
    assert_eq!(attempts.load(Ordering::SeqCst), 0);

    let (first, second, third) = tokio::join!(
        docs.get("/docs/api"),
        docs.get("/docs/search?q=things"),
        docs.get("/docs/api/things/list_things"),
    );

    assert_eq!([first.status, second.status, third.status], [200; 3]);
    assert_eq!(docs.get("/docs/api/things").await.status, 200);
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_contract_that_could_not_be_made_is_an_error_without_details_and_is_made_again() {
    let (docs, attempts) = failing(2);

    let failed = docs.get("/docs/api").await;
    let searched = docs.get("/docs/search?q=things").await;

    assert_eq!([failed.status, searched.status], [500; 2]);
    assert!(failed.text.contains("\"code\":\"internal\""), "{}", failed.text);
    assert!(!failed.text.contains("secret detail"), "{}", failed.text);
    assert_eq!(docs.get("/docs/credits").await.status, 200, "documents need no contract");
    assert_eq!(docs.get("/docs/api").await.status, 200);
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
}
