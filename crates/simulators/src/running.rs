//! Starting and stopping.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::listener;
use crate::mail::{Mailbox, smtp};
use crate::mount::Mount;
use crate::platform::{self, DemoAccount};
use crate::present;
use crate::processor::{Processor, delivery};
use crate::service::Service;
use crate::settings::Settings;

/// Why the simulators did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder, a log or a journal in it cannot be used.
    #[error("the data folder of the simulators cannot be used")]
    Data(#[source] io::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// The name of the payment processor among the ports.
pub(crate) const PROCESSOR: &str = "processor";

/// Simulators that serve requests until they are stopped.
pub struct Running {
    address: SocketAddr,
    mail_address: SocketAddr,
    service: Arc<Service>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Starts all platforms on one common port, each on a port of its own beside it as the payment processor is, and the
/// mail sink. They serve
/// until [`Running::stop`].
pub async fn start(settings: Settings) -> Result<Running, StartError> {
    let service = service(&settings)?;
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let mail_listen = settings.mail_listen;
    let refused = |source| StartError::Listen { address: mail_listen, source };
    let mail = TcpListener::bind(mail_listen).await.map_err(refused)?;
    let mail_address = mail.local_addr().map_err(refused)?;
    let address = settings.listen;
    let address = listener::listen(&service, address, &stop, &tasks)
        .map_err(|source| StartError::Listen { address, source })?;
    if let Some(own) = service.doors.get().and_then(|doors| doors.address(PROCESSOR)) {
        // A service is listened for once.
        let _known = service.processor.address.set(own);
    }
    tasks.spawn(delivery::run(Arc::clone(&service.processor), stop.clone()));
    tasks.spawn(smtp::serve(mail, Arc::clone(&service.mailbox), stop.clone()));
    Ok(Running { address, mail_address, service, stop, tasks })
}

/// The service without a listener, for tests that call it in process. Faults that need a socket are
/// answered with 501.
pub fn router(settings: &Settings) -> Result<axum::Router, StartError> {
    Ok(service(settings)?.router())
}

fn service(settings: &Settings) -> Result<Arc<Service>, StartError> {
    if let Some(folder) = &settings.data {
        std::fs::create_dir_all(folder).map_err(StartError::Data)?;
    }
    let present_ms = present::of(settings).map_err(StartError::Data)?;
    let open = |platform| Mount::open(platform, settings, present_ms).map_err(StartError::Data);
    let mounts = platform::all(settings).into_iter().map(open).collect::<Result<_, _>>()?;
    let mailbox = Mailbox::open(settings.data.as_deref(), settings.clock.clone());
    let mailbox = Arc::new(mailbox.map_err(StartError::Data)?);
    let processor = Processor::open(settings).map_err(StartError::Data)?;
    Ok(Arc::new(Service::new(mounts, mailbox, Arc::new(processor))))
}

/// The accounts that the simulators accept, with their credentials; the first of each platform is
/// the sandbox's demo account, the last has no fans and no content.
pub fn demo_accounts(settings: &Settings) -> Vec<DemoAccount> {
    platform::all(settings).iter().flat_map(|platform| platform.accounts()).collect()
}

impl Running {
    /// Where everything listens: all platforms and the control interface.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL that a platform lives under, on its own port, such as
    /// `http://127.0.0.1:9001/platform_alpha`. It is served under the same path on the common port.
    pub fn platform_url(&self, platform: &str) -> String {
        let own = self.service.doors.get().and_then(|doors| doors.address(platform));
        format!("http://{}/{platform}", own.unwrap_or(self.address))
    }

    /// The URL below which the payment processor's API is, on its own port, such as `http://127.0.0.1:9005`.
    pub fn processor_url(&self) -> String {
        self.service.processor.base()
    }

    /// The script that stands in for the payment processor's on the pages of a console.
    pub fn processor_js_url(&self) -> String {
        format!("{}/processor/js", self.processor_url())
    }

    /// Sends the payment processor's events to this URL, which begins with `http://`, from now on.
    pub fn set_processor_webhook(&self, url: &str) {
        self.service.processor.outbox.change(|endpoint| endpoint.url = Some(url.to_owned()));
    }

    /// Where mails are taken over SMTP, without TLS or login.
    pub fn mail_address(&self) -> SocketAddr {
        self.mail_address
    }

    /// Where the mails that were taken can be read in a browser.
    pub fn mail_url(&self) -> String {
        format!("http://{}/mail", self.address)
    }

    /// Takes no more requests and waits until the running ones are answered.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}
