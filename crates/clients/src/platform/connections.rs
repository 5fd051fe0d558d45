//! Connections that are kept for a next request, and the one place where requests leave.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper_util::rt::TokioExecutor;
use tokio::time::Instant;
use tower_service::Service;

use super::answer::{self, Answer};
use super::body::{Progress, RequestBody};
use super::client::UpstreamSettings;
use super::connect::{ConnectionSettings, Connector, Watch};
use super::fault;
use super::link::{Link, Unanswered};
use super::shared::SharedLink;
use super::within::within;
use crate::error::ClientError;

/// Connections to any number of places, made and kept alike. Cheap to clone; clones share them.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Inner>);

struct Inner {
    settings: ConnectionSettings,
    kept: UpstreamSettings,
    connector: Connector,
    /// One or two: a platform, and where its tokens come from.
    places: Mutex<Vec<Arc<Place>>>,
}

/// Where connections lead, and those that wait for a next request.
pub(super) struct Place {
    scheme: Scheme,
    authority: Authority,
    /// What HTTP/1.1 calls it.
    host: HeaderValue,
    kept: UpstreamSettings,
    /// Longest idle first.
    idle: Mutex<VecDeque<Idle>>,
    /// The one that carries many requests, where the place speaks HTTP/2.
    shared: Mutex<Option<SharedLink>>,
}

struct Idle {
    link: Box<Link>,
    since: Instant,
}

/// What a request goes out on.
enum Carrier {
    Own(Box<Link>),
    Shared(SharedLink),
}

/// The connection of an answer whose body is still to come, and where it goes when all of it has.
pub(super) struct Lease {
    link: Box<Link>,
    home: Arc<Place>,
}

/// Why an exchange brought no head.
enum NoHead {
    Late,
    Unanswered(Box<Unanswered>),
}

impl Connections {
    /// Makes no connection yet.
    pub(crate) fn new(settings: &ConnectionSettings, kept: &UpstreamSettings) -> Self {
        Self(Arc::new(Inner {
            settings: settings.clone(),
            kept: *kept,
            connector: Connector::new(settings.clone()),
            places: Mutex::default(),
        }))
    }

    /// How they are made.
    pub(super) fn settings(&self) -> &ConnectionSettings {
        &self.0.settings
    }

    /// Sends a request to where its address says, and waits for the head of the answer.
    ///
    /// It is sent once. Only where a kept connection turns out to be closed before any of the request was written does
    /// it leave on another one, which is as safe for a write as for a read.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function would keep the request in two places"
    )]
    pub(crate) fn send(
        &self,
        mut request: Request<RequestBody>,
    ) -> impl Future<Output = Result<Answer, ClientError>> + Send {
        async move {
            let place = self.place(request.uri())?;
            let progress = request.body().progress();
            let timeouts = &self.0.settings.timeouts;
            loop {
                let (mut carrier, is_old) = match place.kept().await {
                    Some(carrier) => (carrier, true),
                    // Boxed, so that a call on a kept connection does not carry the room of making one.
                    None => (Box::pin(self.connect(&place)).await?, false),
                };
                place.address(&mut request, &carrier)?;
                let waited = head(&mut carrier, &mut request, timeouts.first_byte, &progress).await;
                let unanswered = match waited {
                    Ok(response) => {
                        let lease = place.checked(carrier, &response)?;
                        return Ok(Answer::new(response, lease, timeouts.between_bytes));
                    }
                    Err(NoHead::Late) => return Err(fault::late(carrier.watch())),
                    Err(NoHead::Unanswered(unanswered)) => unanswered,
                };
                request = again(unanswered, carrier.watch(), is_old)?;
            }
        }
    }

    fn place(&self, uri: &Uri) -> Result<Arc<Place>, ClientError> {
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(ClientError::build("a request needs a whole address"));
        };
        let mut places = locked(&self.0.places);
        let known = places.iter().find(|place| place.is_at(scheme, authority));
        if let Some(place) = known {
            return Ok(Arc::clone(place));
        }
        let host = HeaderValue::from_str(authority.as_str()).map_err(ClientError::build)?;
        let place = Arc::new(Place {
            scheme: scheme.clone(),
            authority: authority.clone(),
            host,
            kept: self.0.kept,
            idle: Mutex::default(),
            shared: Mutex::default(),
        });
        places.push(Arc::clone(&place));
        drop(places);
        TokioExecutor::new().execute(sweep(Arc::downgrade(&place), self.0.kept.idle));
        Ok(place)
    }

    async fn connect(&self, place: &Arc<Place>) -> Result<Carrier, ClientError> {
        let stream =
            self.0.connector.clone().call(place.address_of("/")?).await.map_err(fault::connect)?;
        let watch = stream.inner().watch();
        let opened = if watch.is_h2() {
            SharedLink::open(stream).await.map(|link| Carrier::Shared(place.share(link)))
        } else {
            Link::open(stream).await.map(|link| Carrier::Own(Box::new(link)))
        };
        opened.map_err(|error| fault::of(error, true, &watch))
    }
}

impl Carrier {
    fn watch(&self) -> &Watch {
        match self {
            Self::Own(link) => &link.watch,
            Self::Shared(link) => &link.watch,
        }
    }
}

impl Place {
    fn is_at(&self, scheme: &Scheme, authority: &Authority) -> bool {
        self.authority.as_str() == authority.as_str() && self.scheme == *scheme
    }

    /// Something that was used before and can be used again.
    async fn kept(&self) -> Option<Carrier> {
        let shared = locked(&self.shared).clone().filter(|link| !link.is_closed());
        if let Some(link) = shared {
            return Some(Carrier::Shared(link));
        }
        poll_fn(|context| Poll::Ready(self.idle_link(context))).await.map(Carrier::Own)
    }

    /// The one that was used last and is as good as it was: looked at only now, it may turn out to be closed, or to
    /// have brought what nobody asked for.
    fn idle_link(&self, context: &mut Context<'_>) -> Option<Box<Link>> {
        loop {
            let Idle { mut link, since } = locked(&self.idle).pop_back()?;
            if since.elapsed() > self.kept.idle {
                continue;
            }
            if link.look(context) {
                return Some(link);
            }
        }
    }

    fn keep(&self, link: Box<Link>) {
        link.rest();
        let mut idle = locked(&self.idle);
        if idle.len() < self.kept.idle_connections_max {
            idle.push_back(Idle { link, since: Instant::now() });
        }
    }

    /// The connection that all share: this one, unless somebody was faster.
    fn share(&self, link: SharedLink) -> SharedLink {
        let mut shared = locked(&self.shared);
        match &*shared {
            Some(first) if !first.is_closed() => first.clone(),
            _ => shared.insert(link).clone(),
        }
    }

    /// Names the target as the connection's protocol wants it.
    fn address(
        &self,
        request: &mut Request<RequestBody>,
        carrier: &Carrier,
    ) -> Result<(), ClientError> {
        match carrier {
            Carrier::Own(_) => {
                if request.uri().authority().is_some() {
                    let mut parts = std::mem::take(request.uri_mut()).into_parts();
                    let target = parts.path_and_query.take();
                    *request.uri_mut() =
                        Uri::from(target.unwrap_or_else(|| PathAndQuery::from_static("/")));
                }
                request.headers_mut().insert(HOST, self.host.clone());
            }
            Carrier::Shared(_) => {
                if request.uri().authority().is_none() {
                    let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
                    *request.uri_mut() = self.address_of(target)?;
                }
                request.headers_mut().remove(HOST);
            }
        }
        Ok(())
    }

    fn address_of(&self, target: &str) -> Result<Uri, ClientError> {
        let uri = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(target);
        uri.build().map_err(ClientError::build)
    }

    /// Refuses a head that must not be passed on; its connection is not used again.
    fn checked(
        self: &Arc<Self>,
        carrier: Carrier,
        response: &Response<Incoming>,
    ) -> Result<Option<Lease>, ClientError> {
        let checked = answer::check_head(response);
        carrier.watch().note_answer();
        match (carrier, checked) {
            (Carrier::Own(link), Ok(())) => Ok(Some(Lease { link, home: Arc::clone(self) })),
            (Carrier::Shared(_), Ok(())) => Ok(None),
            (Carrier::Own(_), Err(what)) => Err(ClientError::bad_response(what)),
            (Carrier::Shared(_), Err(what)) => {
                *locked(&self.shared) = None;
                Err(ClientError::bad_response(what))
            }
        }
    }
}

impl Lease {
    /// Polls the answer's body, and lets the connection read what it can of it.
    pub(super) fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.link.poll(context, poll)
    }

    /// All of the answer is here: the connection waits for a next request, if it can carry one.
    pub(super) fn end(self) {
        if self.link.is_ready() {
            self.home.keep(self.link);
        }
    }
}

/// Closes what has waited too long, also where no requests come by.
async fn sweep(place: Weak<Place>, idle: Duration) {
    loop {
        tokio::time::sleep(idle).await;
        let Some(place) = place.upgrade() else { return };
        let mut waiting = locked(&place.idle);
        while waiting.front().is_some_and(|oldest| oldest.since.elapsed() > idle) {
            waiting.pop_front();
        }
    }
}

/// Sends the request, leaving an empty one in its place, and waits for the head of the answer; the time starts anew while
/// parts of a spooled body leave.
async fn head(
    carrier: &mut Carrier,
    request: &mut Request<RequestBody>,
    wait: Duration,
    progress: &Progress,
) -> Result<Response<Incoming>, NoHead> {
    let request = std::mem::take(request);
    let answered = match carrier {
        Carrier::Own(link) => {
            let mut answer = pin!(link.begin(request));
            let work = poll_fn(|context| link.poll(context, |own| answer.as_mut().poll(own)));
            in_time(work, wait, progress).await?
        }
        Carrier::Shared(link) => in_time(Box::pin(link.exchange(request)), wait, progress).await?,
    };
    answered.map_err(|unanswered| NoHead::Unanswered(Box::new(unanswered)))
}

/// The request again, where none of it was written and an old connection is the reason.
fn again(
    mut unanswered: Box<Unanswered>,
    watch: &Watch,
    is_old: bool,
) -> Result<Request<RequestBody>, ClientError> {
    match unanswered.take_message() {
        Some(unsent) if is_old => Ok(unsent),
        unsent => Err(fault::of(unanswered.into_error(), unsent.is_some(), watch)),
    }
}

async fn in_time<T>(
    mut work: impl Future<Output = T> + Unpin,
    wait: Duration,
    progress: &Progress,
) -> Result<T, NoHead> {
    loop {
        let left_before = progress.get();
        match within(wait, &mut work).await {
            Some(done) => return Ok(done),
            None if progress.get() != left_before => {}
            None => return Err(NoHead::Late),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connections").field("kept", &self.0.kept).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Lease")
    }
}
