//! Starts and stops the simulators.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use simulator_kit::mail::{MailPort, MailSink};
use simulator_kit::{RunningService, SimulatorService};
use simulator_platforms::{DemoAccount, PlatformsSimulator};
use simulator_processor::ProcessorSimulator;

use crate::settings::SimulatorSettings;

/// Why the simulators did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder, a log or a journal in it cannot be used.
    #[error("the data folder of the simulators cannot be used")]
    Data(#[source] io::Error),
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// Simulators that serve requests until they are stopped.
#[derive(Debug)]
pub struct RunningSimulators {
    service: RunningService,
    processor: Arc<ProcessorSimulator>,
    mail_address: SocketAddr,
}

/// The simulators before they are served.
struct Simulators {
    platforms: Arc<PlatformsSimulator>,
    processor: Arc<ProcessorSimulator>,
    mail: Arc<MailSink>,
}

/// Starts all simulators on one common port, each platform and the payment processor also on a port
/// of its own, and the mail server. They serve until [`RunningSimulators::stop`].
pub async fn start(settings: SimulatorSettings) -> Result<RunningSimulators, StartError> {
    let simulators = Simulators::open(&settings).map_err(StartError::Data)?;
    let refused = |address| move |source| StartError::Listen { address, source };
    let mail_port = MailPort::open(settings.mail_listen).await;
    let mail_port = mail_port.map_err(refused(settings.mail_listen))?;
    let service = simulators.service(&settings).listen(settings.listen);
    let service = service.map_err(refused(settings.listen))?;
    let Simulators { processor, mail, .. } = simulators;
    processor.run(&service);
    let mail_address = mail_port.address();
    mail_port.serve(&mail, &service);
    Ok(RunningSimulators { service, processor, mail_address })
}

/// The accounts that the simulators accept, with their credentials; the first of each platform is
/// the sandbox's demo account, the last has no fans and no content.
pub fn demo_accounts(settings: &SimulatorSettings) -> Vec<DemoAccount> {
    simulator_platforms::demo_accounts(&settings.platforms)
}

impl Simulators {
    fn open(settings: &SimulatorSettings) -> io::Result<Self> {
        let environment = settings.environment();
        if let Some(folder) = &environment.data {
            std::fs::create_dir_all(folder)?;
        }
        Ok(Self {
            platforms: Arc::new(PlatformsSimulator::open(&environment, &settings.platforms)?),
            mail: Arc::new(MailSink::open(&environment)?),
            processor: Arc::new(ProcessorSimulator::open(&environment, &settings.processor)?),
        })
    }

    fn service(&self, settings: &SimulatorSettings) -> SimulatorService {
        let Self { platforms, processor, mail } = self;
        let (platforms, processor) = (Arc::clone(platforms), Arc::clone(processor));
        SimulatorService::new(
            vec![platforms, processor, Arc::clone(mail) as Arc<_>],
            settings.clock.clone(),
        )
    }
}

impl RunningSimulators {
    /// The common address of all simulators and the control interface.
    pub fn address(&self) -> SocketAddr {
        self.service.address()
    }

    /// The base URL of a platform on its own port, such as `http://127.0.0.1:9001/platform_alpha`.
    /// The common port serves it under the same path.
    pub fn platform_url(&self, platform: &str) -> String {
        let own = self.service.port_address(platform);
        format!("http://{}/{platform}", own.unwrap_or(self.address()))
    }

    /// The base URL of the payment processor's API on its own port, such as
    /// `http://127.0.0.1:9005`.
    pub fn processor_url(&self) -> String {
        self.processor.url()
    }

    /// The URL of the script that replaces the payment processor's on the pages of a console.
    pub fn processor_js_url(&self) -> String {
        self.processor.js_url()
    }

    /// Sends the payment processor's events to this URL, which must start with `http://`, from now
    /// on.
    pub fn set_processor_webhook(&self, url: &str) {
        self.processor.set_webhook(url);
    }

    /// The address that accepts emails over SMTP, without TLS or login.
    pub fn mail_address(&self) -> SocketAddr {
        self.mail_address
    }

    /// The URL at which accepted emails can be read in a browser.
    pub fn mail_url(&self) -> String {
        format!("http://{}/mail", self.address())
    }

    /// Stops accepting requests and waits until the running ones have their responses.
    pub async fn stop(self) {
        self.service.stop().await;
    }
}
