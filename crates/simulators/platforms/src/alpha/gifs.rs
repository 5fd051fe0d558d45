//! The proxy to a GIF service.

use serde_json::{Value, json};

use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;

/// The words that may replace the id.
const KINDS: [&str; 3] = ["search", "trending", "random"];

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get("giphy/proxy/{proxy_id*}", gifs)
}

/// The last segment is a kind of request (`search`, `trending`, `random`), alone or after a type,
/// as in `gifs/trending`; `q` is the search term.
fn gifs(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let kind = call.param("proxy_id").rsplit('/').next().unwrap_or_default();
    if !KINDS.contains(&kind) {
        return Err(Refusal::not_found("Type"));
    }
    let wanted = call.query("q").unwrap_or(kind);
    let limit = call.query_number("limit")?.unwrap_or(10).clamp(1, 50);
    let offset = call.query_number("offset")?.unwrap_or(0);
    let gif = |nth: u64| {
        json!({
            "id": format!("{kind}-{nth}"),
            "title": format!("{wanted} {nth}"),
            "images": {"original": {"url": format!("https://gifs.test/{kind}/{nth}.gif")}},
        })
    };
    let end = offset.saturating_add(limit).min(500);
    let data: Vec<Value> = (offset.min(end)..end).map(gif).collect();
    Ok(Answer::ok(json!({
        "pagination": {"offset": offset, "count": data.len(), "total_count": 500},
        "data": data,
    })))
}
