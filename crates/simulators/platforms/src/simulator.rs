//! All platforms as one simulator.

use std::io;

use http::StatusCode;
use simulator_kit::control::{ControlEntry, ControlRequest};
use simulator_kit::faults::{FaultRules, FaultTarget};
use simulator_kit::script::{SocketReply, WireReply};
use simulator_kit::service::storage_response;
use simulator_kit::simulator::{BoxFuture, SimulatorRequest};
use simulator_kit::{Simulator, SimulatorEnvironment};

use crate::host::PlatformHost;
use crate::platform::{DemoAccount, Platform};
use crate::settings::PlatformSettings;
use crate::{alpha, beta, control, delta, gamma, present};

/// The simulated platforms, with all their state.
pub struct PlatformsSimulator {
    pub(crate) hosts: Vec<PlatformHost>,
}

impl PlatformsSimulator {
    /// Opens the logs and the journals of all platforms in the data folder.
    pub fn open(
        environment: &SimulatorEnvironment,
        settings: &PlatformSettings,
    ) -> io::Result<Self> {
        let present_ms = present::of(environment)?;
        let open = |platform| PlatformHost::open(platform, environment, settings, present_ms);
        let hosts = all(settings).into_iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { hosts })
    }

    /// The platform with this name.
    pub(crate) fn host(&self, name: &str) -> Option<&PlatformHost> {
        self.hosts.iter().find(|host| host.platform.name() == name)
    }
}

/// The accounts that the platforms accept, with their credentials; the first of each platform is
/// the sandbox's demo account, the last has no fans and no content.
pub fn demo_accounts(settings: &PlatformSettings) -> Vec<DemoAccount> {
    all(settings).iter().flat_map(|platform| platform.accounts()).collect()
}

impl Simulator for PlatformsSimulator {
    fn serves(&self, first_segment: &str) -> bool {
        self.host(first_segment).is_some()
    }

    fn answer<'a>(
        &'a self,
        request: SimulatorRequest,
        faults: &'a FaultRules,
    ) -> BoxFuture<'a, SocketReply> {
        let reply = match self.host(&request.first_segment) {
            Some(host) => host
                .pass(&request, faults)
                .unwrap_or_else(|error| SocketReply::Whole(storage_response(&error))),
            // The service passes on only what `serves` accepts.
            None => SocketReply::Whole(WireReply::new(StatusCode::NOT_FOUND)),
        };
        Box::pin(std::future::ready(reply))
    }

    fn port_names(&self) -> Vec<&'static str> {
        self.hosts.iter().map(|host| host.platform.name()).collect()
    }

    fn fault_targets(&self) -> Vec<&dyn FaultTarget> {
        self.hosts.iter().map(|host| host as &dyn FaultTarget).collect()
    }

    fn control_index(&self) -> &'static [ControlEntry] {
        &control::INDEX
    }

    fn control<'a>(&'a self, request: &'a ControlRequest<'a>) -> BoxFuture<'a, Option<WireReply>> {
        Box::pin(std::future::ready(control::answer(self, request)))
    }

    fn reset(&self) -> io::Result<()> {
        self.hosts.iter().try_for_each(PlatformHost::reset)
    }
}

impl std::fmt::Debug for PlatformsSimulator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PlatformsSimulator").finish_non_exhaustive()
    }
}

/// All platforms.
fn all(settings: &PlatformSettings) -> Vec<Box<dyn Platform>> {
    vec![
        Box::new(alpha::Alpha),
        Box::new(beta::Beta::new(settings)),
        Box::new(gamma::Gamma),
        Box::new(delta::Delta::new(settings)),
    ]
}
