//! Sending events: signed, retried until they are accepted, repeated or reordered on demand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use simulator_kit::seeded_random::mix;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fields::{set, text};
use super::{ProcessorSimulator, events, versions};
use crate::settings::ProcessorSettings;

/// How long an endpoint may take to respond.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Pauses after failed attempts, in seconds; the last one is repeated.
const PAUSES_S: [u64; 7] = [1, 2, 5, 15, 60, 300, 3600];
/// The number of attempts after which an event is abandoned.
const TRIES_MAX: usize = 16;
/// The most bytes of a response that are read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// The interval of the background loop.
const TICK: Duration = Duration::from_secs(1);

/// The destination of events, and how they are sent.
#[derive(Clone, Debug)]
pub(crate) struct WebhookEndpoint {
    /// `http://…`; nothing is sent while it is `None`.
    pub(crate) url: Option<String>,
    pub(crate) secret: String,
    /// The API version of events.
    pub(crate) version: String,
    /// Types or patterns such as `charge.*`.
    pub(crate) enabled: Vec<String>,
    /// Whether events wait until a test sends them.
    pub(crate) held: bool,
    /// How many times each event is sent.
    pub(crate) copies: usize,
    /// Whether events that are sent together go newest first.
    pub(crate) reversed: bool,
    /// How many events are sent concurrently. With more than one, they are sent in no order.
    pub(crate) parallel: usize,
    /// How long events wait before the first attempt, in milliseconds.
    pub(crate) delay_ms: u64,
}

#[derive(Clone, Debug)]
struct WaitingEvent {
    event: String,
    tries: usize,
    due: Instant,
}

#[derive(Debug)]
struct OutboxState {
    endpoint: WebhookEndpoint,
    waiting: VecDeque<WaitingEvent>,
}

/// The pending events.
#[derive(Debug)]
pub(crate) struct EventOutbox {
    kept: Mutex<OutboxState>,
    changed: Notify,
    /// Held while events are sent, so that waiting for all of them includes those being sent.
    sending: tokio::sync::Mutex<()>,
}

/// The result of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryAttempt {
    pub(crate) event: String,
    pub(crate) kind: String,
    /// The endpoint's status; `None` if there was no response.
    pub(crate) status: Option<u16>,
}

impl EventOutbox {
    pub(super) fn new(settings: &ProcessorSettings) -> Self {
        let endpoint = WebhookEndpoint {
            url: settings.webhook_url.clone(),
            secret: settings.webhook_secret.clone(),
            version: events::VERSION.to_owned(),
            enabled: vec!["*".to_owned()],
            held: settings.events_held,
            copies: 1,
            reversed: false,
            parallel: 1,
            delay_ms: 0,
        };
        let kept = Mutex::new(OutboxState { endpoint, waiting: VecDeque::new() });
        Self { kept, changed: Notify::new(), sending: tokio::sync::Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, OutboxState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The destination of events, and how they are sent.
    pub(crate) fn endpoint(&self) -> WebhookEndpoint {
        self.kept().endpoint.clone()
    }

    /// Changes the destination of events, and how they are sent.
    pub(crate) fn change(&self, change: impl FnOnce(&mut WebhookEndpoint)) {
        change(&mut self.kept().endpoint);
        self.changed.notify_one();
    }

    /// Whether events of this type are sent.
    pub(super) fn wants(&self, kind: &str) -> bool {
        let kept = self.kept();
        kept.endpoint.url.is_some()
            && kept.endpoint.enabled.iter().any(|pattern| events::matches(pattern, kind))
    }

    /// Queues an event.
    pub(super) fn add(&self, event: &str) {
        let mut kept = self.kept();
        let due = Instant::now() + Duration::from_millis(kept.endpoint.delay_ms);
        kept.waiting.push_back(WaitingEvent { event: event.to_owned(), tries: 0, due });
        drop(kept);
        self.changed.notify_one();
    }

    pub(super) fn clear(&self) {
        self.kept().waiting.clear();
    }

    /// The number of pending events.
    pub(crate) fn waiting(&self) -> usize {
        self.kept().waiting.len()
    }

    /// Takes the events that are due, or all, in the order in which they are to be sent.
    fn take(&self, all: bool) -> Vec<WaitingEvent> {
        let mut kept = self.kept();
        if kept.endpoint.url.is_none() || (kept.endpoint.held && !all) {
            return Vec::new();
        }
        let now = Instant::now();
        let (mut due, later): (Vec<WaitingEvent>, Vec<WaitingEvent>) =
            std::mem::take(&mut kept.waiting)
                .into_iter()
                .partition(|waiting| all || waiting.due <= now);
        kept.waiting = later.into();
        if kept.endpoint.reversed {
            due.reverse();
        }
        if kept.endpoint.parallel > 1 {
            due.sort_by_key(|waiting| disorder(&waiting.event));
        }
        due
    }

    /// Takes one event out of the queue, if it is pending.
    fn withdraw(&self, event: &str) -> Option<WaitingEvent> {
        let mut kept = self.kept();
        let place = kept.waiting.iter().position(|waiting| waiting.event == event)?;
        kept.waiting.remove(place)
    }

    fn next_due(&self) -> Instant {
        let kept = self.kept();
        let next = kept.waiting.iter().map(|waiting| waiting.due).min();
        next.filter(|_| !kept.endpoint.held && kept.endpoint.url.is_some())
            .unwrap_or_else(|| Instant::now() + TICK)
            .min(Instant::now() + TICK)
    }
}

/// Sends events and processes due work until `stop` is cancelled.
pub(crate) async fn run(processor: Arc<ProcessorSimulator>, stop: CancellationToken) {
    loop {
        let next = processor.outbox.next_due();
        tokio::select! {
            () = stop.cancelled() => return,
            () = processor.outbox.changed.notified() => {}
            () = tokio::time::sleep_until(next) => {}
        }
        processor.with_store(|_| ());
        let sent = send_waiting(&processor, false);
        if stop.run_until_cancelled(sent).await.is_none() {
            return;
        }
    }
}

/// Sends the events that are due, or all pending ones, once each; returns the results.
pub(crate) async fn send_waiting(
    processor: &ProcessorSimulator,
    all: bool,
) -> Vec<DeliveryAttempt> {
    let _alone = processor.outbox.sending.lock().await;
    let mut tried = Vec::new();
    let parallel = processor.outbox.endpoint().parallel.max(1);
    for batch in processor.outbox.take(all).chunks(parallel) {
        let sent = at_once(batch.iter().map(|waiting| send_copies(processor, waiting)));
        tried.extend(sent.await.into_iter().flatten());
    }
    tried
}

async fn send_copies(
    processor: &ProcessorSimulator,
    waiting: &WaitingEvent,
) -> Vec<DeliveryAttempt> {
    let copies = processor.outbox.endpoint().copies.max(1);
    let (mut tried, mut taken) = (Vec::new(), false);
    for _ in 0..copies {
        let one = send(processor, &waiting.event, None).await;
        taken = one.status.is_some_and(|status| (200..300).contains(&status));
        tried.push(one);
    }
    if taken {
        delivered(processor, &waiting.event);
    } else {
        try_again(processor, waiting.clone());
    }
    tried
}

/// A place for an event that does not depend on when it happened, but is always the same.
fn disorder(event: &str) -> u64 {
    event.bytes().fold(0, |sum, byte| mix(sum ^ u64::from(byte)))
}

/// Waits for all of them concurrently.
pub(crate) async fn at_once<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, done) in &mut running {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, done)| done).collect()
}

/// Sends these events now, in this order, `copies` times each, whether they are pending or not;
/// returns the results of all attempts.
pub(crate) async fn send_these(
    processor: &ProcessorSimulator,
    events: &[String],
    copies: usize,
) -> Vec<DeliveryAttempt> {
    let _alone = processor.outbox.sending.lock().await;
    let mut tried = Vec::new();
    for event in events {
        let waiting = processor.outbox.withdraw(event);
        let mut taken = false;
        for _ in 0..copies {
            let one = send(processor, event, None).await;
            taken |= one.status.is_some_and(|status| (200..300).contains(&status));
            tried.push(one);
        }
        match waiting {
            _ if taken => delivered(processor, event),
            Some(waiting) => try_again(processor, waiting),
            None => {}
        }
    }
    tried
}

fn delivered(processor: &ProcessorSimulator, event: &str) {
    processor.with_store(|store| {
        store.change(event, |event| {
            set(event, "_.waiting", false);
            set(event, "pending_webhooks", 0);
        });
    });
}

fn try_again(processor: &ProcessorSimulator, waiting: WaitingEvent) {
    let tries = waiting.tries + 1;
    if tries >= TRIES_MAX {
        tracing::warn!(
            event = waiting.event,
            "an event of the simulated processor was not accepted"
        );
        return;
    }
    let pause = PAUSES_S.get(waiting.tries).or(PAUSES_S.last()).copied().unwrap_or(1);
    let due = Instant::now() + Duration::from_secs(pause);
    processor.outbox.kept().waiting.push_back(WaitingEvent { tries, due, ..waiting });
}

/// Sends one event now; `signature` replaces the correct one.
pub(crate) async fn send(
    processor: &ProcessorSimulator,
    event: &str,
    signature: Option<String>,
) -> DeliveryAttempt {
    let endpoint = processor.outbox.endpoint();
    let Some((kind, body)) = written(processor, event, &endpoint.version) else {
        return DeliveryAttempt { event: event.to_owned(), kind: String::new(), status: None };
    };
    let at_s = processor.world_s();
    let signature = signature.unwrap_or_else(|| signed(&endpoint.secret, at_s, &body));
    let url = endpoint.url.unwrap_or_default();
    let answered = tokio::time::timeout(ANSWER_TIMEOUT, post(&url, &signature, &body)).await;
    let status = answered.ok().and_then(Result::ok);
    DeliveryAttempt { event: event.to_owned(), kind, status }
}

/// The type and the body of an event, in the format of a version.
fn written(processor: &ProcessorSimulator, event: &str, version: &str) -> Option<(String, String)> {
    let store = processor.locked();
    let mut event = store.get(event).filter(|event| text(event, "object") == "event")?.clone();
    set(&mut event, "api_version", version);
    let mut shown = super::render::whole(&store, &event);
    versions::shape(&store, &mut shown, version);
    let kind = text(&shown, "type").to_owned();
    Some((kind, serde_json::to_string_pretty(&shown).unwrap_or_default()))
}

/// The value of the signature header. The key is the whole secret, including its prefix.
pub(crate) fn signed(secret: &str, at_s: i64, body: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(format!("{at_s}.{body}").as_bytes());
    format!("t={at_s},v1={}", hex::encode(mac.finalize().into_bytes()))
}

/// Posts to an endpoint on this machine; returns its status.
async fn post(url: &str, signature: &str, body: &str) -> std::io::Result<u16> {
    let invalid = || std::io::Error::other("not an http url");
    let rest = url.strip_prefix("http://").ok_or_else(invalid)?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Stripe/1.0 (+https://stripe.com/docs/webhooks)\r\n\
         Accept: */*; q=0.5, application/xml\r\nCache-Control: no-cache\r\n\
         Content-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\nStripe-Signature: {signature}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    let line = String::from_utf8_lossy(answer.get(..answer.len().min(64)).unwrap_or_default())
        .into_owned();
    line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(invalid)
}

/// An endpoint as the control interface shows it.
pub(crate) fn shown(endpoint: &WebhookEndpoint) -> Value {
    json!({
        "url": endpoint.url, "secret": endpoint.secret, "api_version": endpoint.version,
        "enabled_events": endpoint.enabled, "held": endpoint.held, "copies": endpoint.copies,
        "reversed": endpoint.reversed, "parallel": endpoint.parallel, "delay_ms": endpoint.delay_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::signed;

    #[test]
    fn a_signature_covers_time_and_bytes_with_the_whole_secret() {
        let made = signed("whsec_test", 1_700_000_000, "{}");

        // Computed with Python's hmac and hashlib.
        let expected =
            "t=1700000000,v1=35495024f4ef3f94e5a93e22221544c4b75e9a42300cd965ab81cb85cd994e91";
        assert_eq!(made, expected);
    }
}
