//! Hosts a platform: the worlds and written changes of its creators, its log and its journal. Every
//! request to a platform goes through [`PlatformHost::pass`].

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::Value;
use simulator_kit::faults::{ChosenFault, FaultCandidate, FaultRules, FaultTarget};
use simulator_kit::json_lines::JsonLines;
use simulator_kit::pairs::parse_pairs;
use simulator_kit::script::{ConnectionEnd, SocketReply, SocketScript, WireReply};
use simulator_kit::simulator::SimulatorRequest;
use simulator_kit::{SimulatorClock, SimulatorEnvironment};

use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::files::UploadedFiles;
use crate::journal::JournalEntry;
use crate::multipart;
use crate::overlay::Overlay;
use crate::platform::{
    CREATORS, DemoAccount, EMPTY_CREATOR, IncomingRequest, MovableList, Platform, PlatformState,
};
use crate::request_log::{LoggedRequest, RequestLog};
use crate::routes::{PlatformRoute, RouteHandler, RouteMatch, Routes};
use crate::settings::PlatformSettings;
use crate::world::World;
use crate::world::series::Series;

/// One platform with all its state.
pub(crate) struct PlatformHost {
    pub(crate) platform: Box<dyn Platform>,
    pub(crate) accounts: Vec<DemoAccount>,
    pub(crate) log: RequestLog,
    routes: Routes,
    worlds: [World; CREATORS],
    state: RwLock<PlatformState>,
    journal: Mutex<JsonLines>,
    files: UploadedFiles,
    clock: SimulatorClock,
    settings: PlatformSettings,
}

/// The parts of a request that matter once its sender is known; a journal entry contains the same.
struct KnownRequest<'a> {
    route: &'a PlatformRoute,
    params: Vec<(&'static str, String)>,
    query: Option<&'a str>,
    creator: Option<usize>,
    body: &'a Bytes,
    content_type: Option<&'a str>,
    now_ms: i64,
}

impl PlatformHost {
    /// Opens the log and the journal and replays the journal. `present_ms` is where the generated
    /// world ends.
    pub(crate) fn open(
        platform: Box<dyn Platform>,
        environment: &SimulatorEnvironment,
        settings: &PlatformSettings,
        present_ms: i64,
    ) -> io::Result<Self> {
        let data = environment.data.as_deref();
        let file = |kind: &str| {
            data.map(|folder: &Path| folder.join(format!("{kind}-{}.jsonl", platform.name())))
        };
        let world = |creator: usize| {
            let fans = if creator == EMPTY_CREATOR { 0 } else { settings.subscribers };
            World::new(environment.seed, creator as u64, fans).ending(present_ms)
        };
        let host = Self {
            accounts: platform.accounts(),
            routes: platform.routes(),
            log: RequestLog::open(file("requests").as_deref(), settings.requests_kept)?,
            journal: Mutex::new(JsonLines::open(file("journal").as_deref())?),
            files: UploadedFiles::open(
                data.map(|folder| folder.join(format!("files-{}", platform.name()))).as_deref(),
            )?,
            worlds: std::array::from_fn(world),
            state: RwLock::new(PlatformState::default()),
            clock: environment.clock.clone(),
            settings: settings.clone(),
            platform,
        };
        host.replay()?;
        Ok(host)
    }

    /// Logs the request, authenticates its sender, and responds. Faults are applied here, so every
    /// request passes through them.
    pub(crate) fn pass(
        &self,
        request: &SimulatorRequest,
        faults: &FaultRules,
    ) -> io::Result<SocketReply> {
        let now_ms = self.clock.now_ms();
        let (path, query) = split_query(&request.path_and_query);
        let incoming = IncomingRequest {
            method: &request.method,
            path_and_query: &request.path_and_query,
            headers: &request.headers,
            now_ms,
        };
        if faults.refuses(self.platform.name()) {
            return Ok(SocketReply::Script(SocketScript::nothing(ConnectionEnd::Close)));
        }
        let rest = path.strip_prefix(self.platform.base());
        let found =
            rest.map_or(RouteMatch::Nothing, |rest| self.routes.find(&request.method, rest));
        let fault = faults.choose(&FaultCandidate {
            platform: self.platform.name(),
            method: &request.method,
            path: rest.unwrap_or(path),
            template: found.template(),
        });
        let (creator, allowed) = self.sender(&incoming, &found);
        let seq = self.log.arrived(self.arrival(request, now_ms, creator))?;
        let answer = match (&fault, allowed) {
            (Some(fault), _) if !fault.carried_out => self.not_carried_out(fault),
            (_, Err(refusal)) => self.platform.refuse(&refusal),
            (_, Ok(())) => match found {
                RouteMatch::Nothing => self.platform.refuse(&Refusal::not_found("Route")),
                RouteMatch::OtherMethods => self.platform.refuse(&Refusal::method_not_allowed()),
                RouteMatch::Route(route, params) => match readable_body(request) {
                    Err(refusal) => self.platform.refuse(&refusal),
                    Ok(body) => {
                        let (body, content_type) = (&body, text_header(request, "content-type"));
                        self.answer(
                            &KnownRequest {
                                route,
                                params,
                                query,
                                creator,
                                body,
                                content_type,
                                now_ms,
                            },
                            request,
                        )?
                    }
                },
            },
        };
        let honest = WireReply::json(answer.status, answer.body.as_ref());
        let given = match &fault {
            Some(fault) => fault.spoil(honest, path),
            None => SocketReply::Whole(honest),
        };
        self.log.answered(seq, given.status(), fault.as_ref().map(|fault| fault.kind))?;
        Ok(given)
    }

    /// The response if nothing is carried out: the platform's own refusal.
    fn not_carried_out(&self, fault: &ChosenFault) -> Answer {
        let status = fault.refusal_status();
        self.platform.refuse(&Refusal::new(status, "fault_on_demand", "A fault was asked for"))
    }

    /// Forgets everything written and requested.
    pub(crate) fn reset(&self) -> io::Result<()> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        *state = PlatformState::default();
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).clear()?;
        self.files.clear()?;
        self.log.clear()
    }

    /// An uploaded file by its SHA-256.
    pub(crate) fn file(&self, sha256: &str) -> io::Result<Option<Bytes>> {
        self.files.find(sha256)
    }

    /// All routes as method and template.
    pub(crate) fn routes(&self) -> impl Iterator<Item = (&Method, &'static str)> {
        self.routes.list()
    }

    /// The sending creator, and whether it may send the request. There is no creator if the
    /// credentials are wrong or the route needs none; one that lacks a scope is known nevertheless.
    fn sender(
        &self,
        incoming: &IncomingRequest<'_>,
        found: &RouteMatch<'_>,
    ) -> (Option<usize>, Result<(), Refusal>) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let route = match found {
            RouteMatch::Route(matched, _) => Some(*matched),
            RouteMatch::OtherMethods | RouteMatch::Nothing => None,
        };
        if route.is_some_and(|route| matches!(route.handler, RouteHandler::Open(_))) {
            return (None, Ok(()));
        }
        match self.platform.authenticate(incoming, &state) {
            Err(refusal) => (None, Err(refusal)),
            Ok(creator) => {
                let authorize =
                    |asked: &PlatformRoute| self.platform.authorize(incoming, &state, asked);
                (Some(creator), route.map_or(Ok(()), authorize))
            }
        }
    }

    fn arrival(
        &self,
        request: &SimulatorRequest,
        at_ms: i64,
        creator: Option<usize>,
    ) -> LoggedRequest {
        let (path, query) = split_query(&request.path_and_query);
        let account = creator.and_then(|creator| self.accounts.get(creator));
        let call_id = text_header(request, "x-call-id");
        LoggedRequest {
            seq: 0,
            at_ms,
            method: request.method.as_str().to_owned(),
            path: path.to_owned(),
            query: query.map(str::to_owned),
            call_id: call_id.map(str::to_owned),
            creator: account.map(|account| account.creator_id.to_owned()),
            write: request.method != Method::GET,
            status: None,
            fault: None,
        }
    }

    fn answer(&self, known: &KnownRequest<'_>, request: &SimulatorRequest) -> io::Result<Answer> {
        if let RouteHandler::Read(handler) = known.route.handler {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            return Ok(self.finish(self.read(handler, known, &state)));
        }
        // The journal is written under the lock, so that its order is the order of the changes.
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let answer = self.finish(self.write(known, &mut state));
        if answer.status < StatusCode::BAD_REQUEST {
            let (path, query) = split_query(&request.path_and_query);
            let mut entry = JournalEntry {
                creator: known.creator,
                method: request.method.as_str().to_owned(),
                path: path.to_owned(),
                query: query.map(str::to_owned),
                content_type: known.content_type.map(str::to_owned),
                body: String::new(),
                body_hex: String::new(),
                at_ms: known.now_ms,
                status: answer.status.as_u16(),
            };
            entry.set_body(known.body);
            for file in multipart::files_of(known.content_type.unwrap_or_default(), &request.body) {
                self.files.keep(&file)?;
            }
            self.journal.lock().unwrap_or_else(PoisonError::into_inner).append(&entry)?;
        }
        Ok(answer)
    }

    fn finish(&self, outcome: Outcome) -> Answer {
        match outcome {
            Ok(answer) => self.platform.dress(answer),
            Err(refusal) => self.platform.refuse(&refusal),
        }
    }

    fn read(
        &self,
        handler: fn(&PlatformCall<'_>, &Overlay) -> Outcome,
        known: &KnownRequest<'_>,
        state: &PlatformState,
    ) -> Outcome {
        let creator = known.creator.unwrap_or_default();
        let (Some(world), Some(overlay)) = (self.worlds.get(creator), state.creators.get(creator))
        else {
            return Err(Refusal::not_found("Account"));
        };
        handler(&known.call(&world.at(known.now_ms), &self.settings), overlay)
    }

    fn write(&self, known: &KnownRequest<'_>, state: &mut PlatformState) -> Outcome {
        let creator = known.creator.unwrap_or_default();
        let (Some(world), Some(overlay)) =
            (self.worlds.get(creator), state.creators.get_mut(creator))
        else {
            return Err(Refusal::not_found("Account"));
        };
        let world = world.at(known.now_ms);
        let call = known.call(&world, &self.settings);
        match known.route.handler {
            RouteHandler::Read(handler) => handler(&call, overlay),
            RouteHandler::Write(handler) => handler(&call, overlay),
            RouteHandler::Open(handler) => handler(&call, &mut state.shared),
        }
    }

    /// Changes the order of a list's rows; returns their number. A restart resets it.
    pub(crate) fn arrange(
        &self,
        creator: usize,
        list: MovableList,
        chat: u64,
        change: impl FnOnce(Series, &mut Vec<u64>) -> Result<(), &'static str>,
    ) -> Result<usize, &'static str> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let (Some(world), Some(overlay)) =
            (self.worlds.get(creator), state.creators.get_mut(creator))
        else {
            return Err("the creator does not exist");
        };
        let fan = world.chats().at(chat).ok_or("the chat does not exist")?;
        let found = self.platform.list(world, list, fan);
        let (table, series) = found.ok_or("the platform does not have this list")?;
        let mut rows = overlay.page(&table, series, 0, u64::MAX).indexes;
        change(series, &mut rows)?;
        overlay.arrange(&table, series, &rows);
        Ok(rows.len())
    }

    fn replay(&self) -> io::Result<()> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.scan(0, |_, entry| {
            self.redo(&entry, &mut state);
            ControlFlow::Continue(())
        })
    }

    fn redo(&self, entry: &JournalEntry, state: &mut PlatformState) {
        let body = Bytes::from(entry.body());
        let method = Method::from_bytes(entry.method.as_bytes()).unwrap_or_default();
        let rest = entry.path.strip_prefix(self.platform.base()).unwrap_or_default();
        let RouteMatch::Route(route, params) = self.routes.find(&method, rest) else {
            tracing::warn!(path = entry.path, "the journal has a route that no longer exists");
            return;
        };
        let known = KnownRequest {
            route,
            params,
            query: entry.query.as_deref(),
            creator: entry.creator,
            body: &body,
            content_type: entry.content_type.as_deref(),
            now_ms: entry.at_ms,
        };
        let answer = self.finish(self.write(&known, state));
        if answer.status.as_u16() != entry.status {
            let (path, status) = (&entry.path, answer.status.as_u16());
            tracing::warn!(path, status, "a write of the journal now has another outcome");
        }
    }
}

impl FaultTarget for PlatformHost {
    fn name(&self) -> &'static str {
        self.platform.name()
    }

    fn has_route(&self, method: Option<&Method>, path: &str) -> bool {
        self.routes.list().any(|(of_route, template)| {
            method.is_none_or(|method| method == of_route)
                && (template == path
                    || self.routes.find(of_route, path).template() == Some(template))
        })
    }
}

impl KnownRequest<'_> {
    fn call<'b>(&'b self, world: &'b World, settings: &'b PlatformSettings) -> PlatformCall<'b> {
        PlatformCall {
            settings,
            world,
            now_ms: self.now_ms,
            params: self.params.clone(),
            query: self.query.map(parse_pairs).unwrap_or_default(),
            body: serde_json::from_slice(self.body).unwrap_or(Value::Null),
            raw_body: self.body,
            content_type: self.content_type,
        }
    }
}

/// The body for handlers and the journal: a multipart form as JSON, anything else as received. A
/// body that does not match its type is refused.
fn readable_body(request: &SimulatorRequest) -> Result<Bytes, Refusal> {
    let content_type = text_header(request, "content-type").unwrap_or_default();
    if multipart::is_form(content_type) {
        let form = multipart::to_json(content_type, &request.body);
        let form = form.ok_or_else(|| Refusal::bad_request("The body is not a whole form"))?;
        return Ok(Bytes::from(form.to_string()));
    }
    let is_json = || serde_json::from_slice::<serde::de::IgnoredAny>(&request.body).is_ok();
    if content_type.contains("json") && !request.body.is_empty() && !is_json() {
        return Err(Refusal::bad_request("The body is not valid JSON"));
    }
    Ok(request.body.clone())
}

fn text_header<'a>(request: &'a SimulatorRequest, name: &str) -> Option<&'a str> {
    request.headers.get(name)?.to_str().ok()
}

fn split_query(path_and_query: &str) -> (&str, Option<&str>) {
    match path_and_query.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path_and_query, None),
    }
}
