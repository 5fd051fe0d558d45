//! `/llms.txt`: what the service is and where its documents are, for programs that read text
//! (<https://llmstxt.org>).

use std::fmt::Write as _;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::documents;
use crate::shell::NAVIGATION;
use crate::state::ReferenceState;

pub(super) fn router() -> Router<ReferenceState> {
    Router::new().route("/llms.txt", get(llms))
}

async fn llms(State(reference): State<ReferenceState>) -> impl IntoResponse {
    let kept =
        [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "public, max-age=300")];
    (kept, written(&reference))
}

fn written(reference: &ReferenceState) -> String {
    let (base, costs) = (reference.base(), reference.config().credits.costs());
    let platforms = reference.config().platforms.offered().map(|(platform, _)| platform);
    let platforms: Vec<_> = platforms.collect();
    let names: Vec<&str> = platforms.iter().map(|platform| platform.as_str()).collect();
    let offered = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    let mut text = format!(
        "# {}\n\n> An HTTP API to creator platforms{offered}: one key and one path pattern, metered in \
         credits. Each metered response says what it cost and what is left.\n\n\
         Call a platform's route at `{base}/v1/{{account}}/native/{{path}}` with the header `X-API-Key`. A read costs {}, \
         a write {}, an export {} credits. Failures of a platform (429, 5xx, timeouts) cost nothing. Every error has a \
         stable `code`; {base}/docs/errors.md explains each. Send an `Idempotency-Key` with every write.\n\n\
         ## OpenAPI\n\n\
         - [The service's own operations]({base}/openapi.json): OpenAPI 3.1; `?version=3.0` for 3.0.3\n\
         - [Everything]({base}/openapi.json?platforms=all): with the routes of all platforms\n",
        reference.config().brand.name,
        costs.read.whole(),
        costs.write.whole(),
        costs.export.whole(),
    );
    for name in names {
        let path = format!("/v1/platforms/{name}");
        let _written = writeln!(
            text,
            "- [Routes of {name}]({base}{path}/openapi.json): searchable at {base}{path}/routes?search="
        );
    }
    for group in NAVIGATION {
        let heading = if group.id == "nav-own" { "Optional" } else { group.heading };
        let links = group.links.iter().filter_map(|link| link.path.strip_prefix("/docs/"));
        let mut found = links.filter_map(documents::find).peekable();
        if found.peek().is_some() {
            let _written = write!(text, "\n## {heading}\n\n");
        }
        for (_, document) in found {
            let title = reference.title(document);
            let _written =
                writeln!(text, "- [{title}]({base}/docs/{}.md): {}", document.slug, document.about);
        }
    }
    text
}
