//! One export: its progress, its file, its end.

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::response::Response;
use axum::routing::get;
use http::header::{IF_RANGE, RANGE};
use http::{Method, StatusCode};

use super::PATH;
use super::view::ShownExport;
use crate::examples::CodeExample;
use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::{FormView, SentForm};
use console_kit::service::{self, ServiceResponse};
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::sure::DangerousDeed;
use console_kit::visitor::ConsoleVisitor;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/console/exports/{export}", get(show))
        .route("/console/exports/{export}/status", get(status))
        .route("/console/exports/{export}/download", get(download))
        .route("/console/exports/{export}/cancel", get(show_cancel).post(cancel))
        .route("/console/exports/{export}/delete", get(show_delete).post(delete))
}

#[derive(Template)]
#[template(path = "console/exports/one.html")]
struct ExportPage {
    frame: PageShell,
    export: ShownExport,
    code: CodeExample,
}

/// The part of the page that changes while the export runs.
#[derive(Template)]
#[template(path = "console/exports/status.html")]
struct StatusRegion {
    export: ShownExport,
}

fn route_of(export: &str) -> String {
    format!("/v1/exports/{}", address::segment(export))
}

async fn find(visitor: &ConsoleVisitor, export: &str) -> Result<ShownExport, PageFailure> {
    visitor.get(&route_of(export)).await
}

async fn show(
    visitor: ConsoleVisitor,
    Path(export): Path<String>,
) -> Result<Response, PageFailure> {
    let export = find(&visitor, &export).await?;
    let code = CodeExample {
        method: "GET".to_owned(),
        url: format!("{}/v1/exports/{}/download", visitor.base_url(), export.id),
        body: None,
        file: Some(format!("{}-{}.{}", export.account, export.dataset, export.fmt)),
    };
    let page = ExportPage { frame: visitor.shell(ConsoleSection::Exports), export, code };
    Ok(visitor.show(StatusCode::OK, &page))
}

async fn status(
    visitor: ConsoleVisitor,
    Path(export): Path<String>,
) -> Result<Response, PageFailure> {
    let export = find(&visitor, &export).await?;
    Ok(ConsoleVisitor::show_part(&StatusRegion { export }))
}

/// The file, streamed as the service streams it. A part of it is passed on as well, so that a
/// browser can go on after a break.
async fn download(
    visitor: ConsoleVisitor,
    Path(export): Path<String>,
    asked: Request,
) -> Result<Response, PageFailure> {
    let path = format!("{}/download", route_of(&export));
    let mut request = service::request(&Method::GET, &path, Body::empty());
    for name in [RANGE, IF_RANGE] {
        if let Some(value) = asked.headers().get(&name) {
            request.headers_mut().insert(name, value.clone());
        }
    }
    let response = visitor.relay(request, None).await;
    let response = response.map_err(|problem| visitor.fail(problem))?;
    if response.status().is_success() || response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
        return Ok(response);
    }
    let refused = ServiceResponse::read(response).await.done();
    refused.map_err(|problem| visitor.fail(problem))?;
    Err(PageFailure::BadForm(visitor.page_frame()))
}

async fn show_cancel(
    visitor: ConsoleVisitor,
    Path(export): Path<String>,
) -> Result<Response, PageFailure> {
    let export = find(&visitor, &export).await?;
    Ok(cancellation(&export).show(&visitor, ConsoleSection::Exports, &FormView::default()))
}

fn cancellation(export: &ShownExport) -> DangerousDeed {
    let consequence = if export.progress.rows > 0 {
        "It stops within seconds, and there will be no file. Part of the list has been read, so it will be charged."
    } else {
        "It stops, and there will be no file. It is free until its first page has been read."
    };
    DangerousDeed {
        path: format!("{PATH}/{}/cancel", export.id),
        back_path: PATH,
        back_word: "Exports",
        thing: format!("{} of {}", export.dataset, export.account),
        question: format!("Cancel the export of {} of {}?", export.dataset, export.account),
        consequence: consequence.to_owned(),
        facts: vec![("Credits", export.cost()), ("Progress", export.pace())],
        button: "Cancel export",
        keep: "Keep it running",
        ..DangerousDeed::default()
    }
}

async fn cancel(Path(export): Path<String>, form: SentForm) -> Result<Response, PageFailure> {
    let visitor = form.visitor;
    let page = format!("{PATH}/{}", address::segment(&export));
    let route = format!("{}/cancel", route_of(&export));
    let flash = match visitor.send_empty(&Method::POST, &route).await {
        Ok(_) => FlashMessage::ok("The export is being stopped."),
        Err(problem) if problem.status == StatusCode::CONFLICT => {
            FlashMessage::warn("The export had already ended.")
        }
        Err(problem) => return Err(visitor.fail(problem)),
    };
    Ok(visitor.lead_to(&page, &flash))
}

async fn show_delete(
    visitor: ConsoleVisitor,
    Path(export): Path<String>,
) -> Result<Response, PageFailure> {
    let export = find(&visitor, &export).await?;
    Ok(deletion(&export).show(&visitor, ConsoleSection::Exports, &FormView::default()))
}

fn deletion(export: &ShownExport) -> DangerousDeed {
    DangerousDeed {
        path: format!("{PATH}/{}/delete", export.id),
        back_path: PATH,
        back_word: "Exports",
        thing: format!("{} of {}", export.dataset, export.account),
        question: format!("Delete the export of {} of {}?", export.dataset, export.account),
        consequence: "The file is deleted and links to it stop working. This can't be undone. Nothing changes on the platform.".to_owned(),
        facts: vec![("Rows", export.rows_shown()), ("Size", export.size()), ("Created", export.created())],
        button: "Delete export",
        keep: "Keep export",
        ..DangerousDeed::default()
    }
}

async fn delete(Path(export): Path<String>, form: SentForm) -> Result<Response, PageFailure> {
    let visitor = form.visitor;
    match visitor.send_empty(&Method::DELETE, &route_of(&export)).await {
        Err(problem) if problem.status == StatusCode::CONFLICT => {
            let flash = FlashMessage::bad("The export is still running. Cancel it first.");
            Ok(visitor.lead_to(&format!("{PATH}/{}", address::segment(&export)), &flash))
        }
        Err(problem) if problem.status != StatusCode::NOT_FOUND => Err(visitor.fail(problem)),
        _ => Ok(visitor.lead_to(PATH, &FlashMessage::ok("The export is deleted."))),
    }
}
