//! The person who is signed in, and what a page can do for that person.

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::response::{IntoResponse, Redirect, Response};
use domain::credits::Credits;
use domain::id::KeyId;
use domain::staff::Permission;
use domain::time::Timestamp;
use http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use pages::PageFrame;
use pages::respond::PagePolicy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::customers::Customer;
use web::auth::{DelegatedKey, FormSecret, PageVisitor};
use web::error::ApiError;
use web::middleware::real_ip::ClientAddress;
use web::middleware::request_id::RequestLabel;
use web::request_log::RequestRecord;

use crate::ConsoleState;
use crate::failure::PageFailure;
use crate::flash::FlashMessage;
use crate::format;
use crate::service::{self, ServiceProblem, ServiceResponse};
use crate::shell::{ConsoleSection, PageShell};

/// The path of the console; what is below it needs a session.
const HOME: &str = "/console";

/// A person with a session, on a page of the console.
pub struct ConsoleVisitor {
    /// Who is signed in.
    pub customer: Customer,
    /// The credits that can be spent.
    pub available: Credits,
    /// What the person may do for other customers; empty but for staff.
    pub permissions: Vec<Permission>,
    forms: FormSecret,
    flash: Option<FlashMessage>,
    /// The path and query of this page.
    here: String,
    origin: RequestOrigin,
}

/// What requests inside the service carry on from the page's own request.
pub struct RequestOrigin {
    /// What pages use.
    pub console: ConsoleState,
    /// What all pages have.
    pub frame: PageFrame,
    headers: HeaderMap,
    client: Option<ClientAddress>,
    label: Option<RequestLabel>,
    record: Option<RequestRecord>,
}

impl FromRequestParts<ConsoleState> for ConsoleVisitor {
    type Rejection = PageFailure;

    async fn from_request_parts(
        parts: &mut Parts,
        console: &ConsoleState,
    ) -> Result<Self, PageFailure> {
        let found = PageVisitor::find(&console.web, parts).await;
        let PageVisitor { signed_in, forms } = found.map_err(|error| refusal(parts, error))?;
        let (customer, balance) = (signed_in.customer, store::usage::balance);
        let customer = store::customers::find_by_id(&console.store, customer).await;
        let customer = customer.map_err(|error| PageFailure::Edge(error.into()))?;
        let customer = customer.ok_or_else(|| sign_in(parts))?;
        let balance = balance(&console.store, customer.id).await;
        let balance = balance.map_err(|error| PageFailure::Edge(error.into()))?;
        let permissions = store::permissions::find(&console.store, customer.id).await;
        let permissions = permissions.map_err(|error| PageFailure::Edge(error.into()))?;
        Ok(Self {
            permissions,
            available: balance.map_or(Credits::ZERO, |balance| balance.available),
            flash: FlashMessage::read(&parts.headers, &forms),
            here: here(parts),
            origin: RequestOrigin::of(parts, console),
            customer,
            forms,
        })
    }
}

/// A request without a usable session leads to the login; anything else is refused as it is.
fn refusal(parts: &Parts, error: ApiError) -> PageFailure {
    let is_missing = error.row().status == StatusCode::UNAUTHORIZED;
    if is_missing { sign_in(parts) } else { PageFailure::Edge(error) }
}

/// The way to the login and back. A form that was sent is not sent again.
fn sign_in(parts: &Parts) -> PageFailure {
    let is_page = parts.method == Method::GET;
    PageFailure::SignIn { next: if is_page { here(parts) } else { HOME.to_owned() } }
}

fn here(parts: &Parts) -> String {
    parts.uri.path_and_query().map_or(HOME, http::uri::PathAndQuery::as_str).to_owned()
}

impl RequestOrigin {
    /// The origin of this request.
    pub fn of(parts: &Parts, console: &ConsoleState) -> Self {
        // Over HTTP/2 a browser may send each cookie in a line of its own.
        let kept = [COOKIE, USER_AGENT].into_iter().flat_map(|name| {
            let values = parts.headers.get_all(&name).iter().cloned();
            values.map(move |value| (name.clone(), value))
        });
        Self {
            console: console.clone(),
            frame: console.pages.frame(&parts.headers),
            headers: kept.collect(),
            client: parts.extensions.get().copied(),
            label: parts.extensions.get().cloned(),
            record: parts.extensions.get().cloned(),
        }
    }

    /// The id of the page's request, to quote to support.
    pub fn request_id(&self) -> &str {
        self.label.as_ref().map(RequestLabel::as_str).unwrap_or_default()
    }

    /// Whether cookies of pages are sent over https only.
    fn is_secure(&self) -> bool {
        self.console.web.cookies.is_secure()
    }

    /// Sends a request to the routes of the service. The log line of the page has the code of its
    /// failure, because the page itself fails in none.
    pub async fn serve(&self, request: Request) -> Response {
        let response = self.console.routes.serve(request).await;
        if let Some(record) = &self.record {
            record.note_failure(&response);
        }
        response
    }

    /// Adds to a request what identifies its sender.
    pub fn sign(&self, request: &mut Request) {
        request.headers_mut().extend(self.headers.clone());
        let same_origin = HeaderValue::from_static("same-origin");
        request.headers_mut().insert("sec-fetch-site", same_origin);
        let extensions = request.extensions_mut();
        if let Some(client) = self.client {
            extensions.insert(client);
        }
        if let Some(label) = &self.label {
            extensions.insert(label.clone());
        }
        if let Some(record) = &self.record {
            extensions.insert(record.clone());
        }
    }
}

/// A change that a page asks the service for.
#[derive(Default)]
pub struct ServiceRequest<'a> {
    /// The key that repeats of the form share, so that it takes effect once; empty for none.
    pub idempotency_key: &'a str,
    /// The key that pays, for metered requests.
    pub paid_by: Option<KeyId>,
}

impl ConsoleVisitor {
    /// Reads a route of the service.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, PageFailure> {
        self.try_get(path).await.map_err(|problem| self.fail(problem))
    }

    /// The same, for a part of a page that may fail on its own.
    pub async fn try_get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ServiceProblem> {
        let mut request = service::request(&Method::GET, path, Body::empty());
        self.origin.sign(&mut request);
        self.serve(request).await.json()
    }

    /// Sends a change to a route of the service, as JSON.
    pub async fn send(
        &self,
        method: &Method,
        path: &str,
        body: &impl Serialize,
        about: &ServiceRequest<'_>,
    ) -> Result<ServiceResponse, ServiceProblem> {
        let body = serde_json::to_vec(body).unwrap_or_default();
        let mut request = service::request(method, path, Body::from(body));
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
        if let Ok(key) = HeaderValue::try_from(about.idempotency_key)
            && !about.idempotency_key.is_empty()
        {
            request.headers_mut().insert("idempotency-key", key);
        }
        self.origin.sign(&mut request);
        if let Some(key) = about.paid_by {
            self.delegate(&mut request, key).await?;
        }
        self.serve(request).await.done()
    }

    /// Sends a change without a body, such as `DELETE`.
    pub async fn send_empty(
        &self,
        method: &Method,
        path: &str,
    ) -> Result<ServiceResponse, ServiceProblem> {
        let mut request = service::request(method, path, Body::empty());
        self.origin.sign(&mut request);
        self.serve(request).await.done()
    }

    /// Sends any request with one of the customer's keys, and returns the response unread: native
    /// calls, downloads.
    pub async fn relay(
        &self,
        mut request: Request,
        paid_by: Option<KeyId>,
    ) -> Result<Response, ServiceProblem> {
        self.origin.sign(&mut request);
        if let Some(key) = paid_by {
            self.delegate(&mut request, key).await?;
        }
        Ok(self.origin.serve(request).await)
    }

    async fn serve(&self, request: Request) -> ServiceResponse {
        ServiceResponse::read(self.origin.serve(request).await).await
    }

    /// Makes a key of the customer's the caller of a request. Its limits and budget apply.
    async fn delegate(&self, request: &mut Request, key: KeyId) -> Result<(), ServiceProblem> {
        let store = &self.origin.console.store;
        let found = store::keys::current_hash(store, self.customer.id, key).await;
        match found {
            Ok(Some(hash)) => {
                request.extensions_mut().insert(DelegatedKey(hash));
                Ok(())
            }
            Ok(None) => Err(ServiceProblem::missing("key_not_found", "This key doesn't exist.")),
            Err(error) => Err(ServiceProblem::internal(error.to_string())),
        }
    }

    /// The failure of the whole page.
    pub fn fail(&self, problem: ServiceProblem) -> PageFailure {
        if problem.status == StatusCode::UNAUTHORIZED {
            return PageFailure::SignIn { next: self.here.clone() };
        }
        let request_id = self.request_id().to_owned();
        PageFailure::Problem { frame: self.page_frame(), problem: Box::new(problem), request_id }
    }

    /// The configuration in force.
    pub fn config(&self) -> &settings::Config {
        &self.origin.console.config
    }

    /// The frame without the console's own parts.
    pub fn page_frame(&self) -> PageFrame {
        self.origin.frame.clone()
    }

    /// The console around a page.
    pub fn shell(&self, section: ConsoleSection) -> PageShell {
        let customer = &self.customer;
        let email = customer.email.as_str().to_owned();
        PageShell {
            frame: self.page_frame(),
            section,
            name: if customer.name.is_empty() { email.clone() } else { customer.name.clone() },
            email,
            is_unconfirmed: customer.email_verified_at.is_none(),
            is_staff: !self.permissions.is_empty(),
            credits: format::number(self.available.whole()),
            here: self.here.clone(),
            flash: self.flash.clone(),
            idle_s: self.config().sessions.idle_s,
            sign_out_token: self.token("/console/logout"),
        }
    }

    /// The token of the form that is sent to this path.
    pub fn token(&self, path: &str) -> String {
        self.forms.token(path)
    }

    /// Whether a form that was sent to this path is ours.
    pub fn is_own_form(&self, path: &str, token: &str) -> bool {
        self.forms.is_token(path, token)
    }

    /// The id of the request for this page, which calls that it sends have as well.
    pub fn request_id(&self) -> &str {
        self.origin.request_id()
    }

    /// The URL at which programs reach the service, without a slash at its end.
    pub fn base_url(&self) -> String {
        self.origin.console.config.http.public_base_url.clone()
    }

    /// The time of the service.
    pub fn now(&self) -> Timestamp {
        self.origin.console.web.clock.now()
    }

    /// A new value for the hidden field that makes a form take effect once.
    pub fn new_idempotency_key(&self) -> String {
        let bytes: [u8; 16] = self.origin.console.random.bytes();
        hex::encode(bytes)
    }

    /// Shows a page. A message from the page before has been shown then.
    pub fn show<T: askama::Template>(&self, status: StatusCode, page: &T) -> Response {
        self.show_with(status, page, &PagePolicy::default())
    }

    /// The same with a policy of its own.
    pub fn show_with<T: askama::Template>(
        &self,
        status: StatusCode,
        page: &T,
        policy: &PagePolicy,
    ) -> Response {
        let mut response = pages::plain::or_apology(status, page, policy);
        if self.flash.is_some() {
            response
                .headers_mut()
                .append(SET_COOKIE, FlashMessage::removal(self.origin.is_secure()));
        }
        response
    }

    /// Shows a part of a page, which the script puts in the place of the older one.
    pub fn show_part<T: askama::Template>(part: &T) -> Response {
        pages::plain::or_apology(StatusCode::OK, part, &PagePolicy::default())
    }

    /// Leads to another page with the new session that a response of the service handed over. The
    /// message is sealed with the new session, because the old one has ended.
    pub async fn lead_on_with(
        &self,
        done: &ServiceResponse,
        path: &str,
        flash: &FlashMessage,
    ) -> Response {
        let mut response = Redirect::to(path).into_response();
        let (mut parts, ()) = http::Request::new(()).into_parts();
        for cookie in done.headers.get_all(SET_COOKIE) {
            let pair = cookie.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
            if let Ok(pair) = HeaderValue::from_bytes(pair) {
                parts.headers.append(COOKIE, pair);
            }
            response.headers_mut().append(SET_COOKIE, cookie.clone());
        }
        if let Some(client) = self.origin.client {
            parts.extensions.insert(client);
        }
        // Without its message the page is the same, so a failure here is none.
        if let Ok(next) = PageVisitor::find(&self.origin.console.web, &parts).await {
            response
                .headers_mut()
                .append(SET_COOKIE, flash.cookie(&next.forms, self.origin.is_secure()));
        }
        response
    }

    /// Leads to another page, with a message for it.
    pub fn lead_to(&self, path: &str, flash: &FlashMessage) -> Response {
        let mut response = Redirect::to(path).into_response();
        response
            .headers_mut()
            .append(SET_COOKIE, flash.cookie(&self.forms, self.origin.is_secure()));
        response
    }
}

impl ServiceProblem {
    /// Something that a page asked for does not exist.
    pub fn missing(code: &str, detail: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            code: code.to_owned(),
            title: "Nothing here".to_owned(),
            detail: detail.to_owned(),
            fields: Vec::new(),
            members: Box::default(),
        }
    }

    /// A repeated form whose first response had a secret, which is shown once.
    pub fn shown_once(title: &str, detail: &str) -> Self {
        Self { status: StatusCode::CONFLICT, title: title.to_owned(), ..Self::missing("", detail) }
    }

    /// A failure on our side.
    fn internal(detail: String) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            code: "internal_error".to_owned(),
            title: "Something went wrong on our side".to_owned(),
            detail,
            fields: Vec::new(),
            members: Box::default(),
        }
    }
}
