//! Phases 4 and 5 together: the call is sent, and its response received as far as must be known
//! before it is passed on.

use domain::repeat::PlatformStatus;
use tokio::time::Instant;

use super::answer::{self, AnswerSender};
use super::call_context::{CallContext, milliseconds};
use super::forward::{self, ForwardFailure};
use super::hold::HeldCall;
use super::prepare::CallDestination;
use super::receive::{self, ReadOn, ReceivedAnswer};
use super::{limits, observe};

/// The result of a call, and when it was there.
pub(super) struct FetchedAnswer {
    pub(super) received: Result<ReceivedAnswer, Unreceived>,
    pub(super) timing: AnswerTiming,
}

/// Why there is no response to pass on.
pub(super) enum Unreceived {
    /// There is no usable one.
    Failed(ForwardFailure),
    /// Its head came, but the caller left before its body was here.
    CallerLeft(PlatformStatus),
}

/// How long a platform took, and when its response, or the lack of one, was known.
#[derive(Clone, Copy)]
pub(super) struct AnswerTiming {
    /// In milliseconds.
    pub(super) upstream_ms: f64,
    pub(super) at: Instant,
}

/// Sends the call and receives its response. After the caller has left, a body is read for a
/// limited time.
pub(super) async fn fetch(
    setting: &CallContext<'_>,
    held: &HeldCall,
    destination: &CallDestination<'_>,
    answer: &mut AnswerSender,
) -> FetchedAnswer {
    let sent_at = Instant::now();
    let received = match forward::forward(setting, held, destination).await {
        Ok(mut platform_answer) => {
            limits::drop_unusable_pause(&mut platform_answer.headers, setting.gateway.clock.now());
            let responded =
                answer::platform_status(platform_answer.status, &platform_answer.headers);
            let receiving = std::pin::pin!(receive::receive(setting, destination, platform_answer));
            let limit = || ReadOn::of(setting).time_max;
            match answer.while_wanted(limit, receiving).await {
                None => Err(Unreceived::CallerLeft(responded)),
                Some(outcome) => {
                    observe::report_to_breaker(setting, &outcome);
                    outcome.map_err(|error| {
                        let failure = forward::failure(setting, held, &error, Some(responded));
                        Unreceived::Failed(failure)
                    })
                }
            }
        }
        Err(failure) => Err(Unreceived::Failed(failure)),
    };
    let at = Instant::now();
    FetchedAnswer { received, timing: AnswerTiming { upstream_ms: milliseconds(sent_at, at), at } }
}
