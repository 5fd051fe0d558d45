//! The queue of passwords to be hashed: a few at a time, and no requester can fill it alone.
//!
//! There are two lanes. Known customers (signed in, holding an emailed link, or logging in with a
//! browser that they recognize) go first and have places of their own, so that a flood of strangers
//! does not affect them. In a full lane the party with the most waiting requests loses a
//! place to one with fewer: a network that fills the lane displaces itself.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use domain::id::CustomerId;
use failures::Failure;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use transport::{network_of, site_of};

/// After this many known customers in a row, a stranger has a turn.
const KNOWN_IN_A_ROW_MAX: u32 = 3;

/// The requester of a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashRequester {
    /// An unknown caller at this address.
    Stranger(IpAddr),
    /// A customer who has proved its identity, at this address.
    Known(CustomerId, IpAddr),
}

/// The queue. Clones share its state.
#[derive(Debug, Clone)]
pub(super) struct HashQueue(Arc<Mutex<WaitingRequesters>>);

#[derive(Debug)]
struct WaitingRequesters {
    /// The number of concurrent turns.
    turns_max: usize,
    turns_taken: usize,
    known: RequesterLane,
    strangers: RequesterLane,
    known_in_a_row: u32,
}

/// Waiting requests, oldest first.
#[derive(Debug)]
struct RequesterLane {
    waiting: VecDeque<Waiting>,
    waiting_max: usize,
}

#[derive(Debug)]
struct Waiting {
    share: Share,
    turn: oneshot::Sender<HashTurn>,
}

/// The parties by which places are counted: first the site (an IPv4 address or IPv6 /48), then the
/// network (an IPv6 /64) or customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    site: HashParty,
    party: HashParty,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum HashParty {
    Address(IpAddr),
    Customer(CustomerId),
}

/// A turn to hash one password. Dropping it passes it on.
#[derive(Debug)]
pub struct HashTurn(Option<HashQueue>);

impl HashRequester {
    fn share(self) -> Share {
        match self {
            Self::Stranger(ip) => {
                let network = network_of(ip);
                let site = HashParty::Address(site_of(ip).unwrap_or(network));
                Share { site, party: HashParty::Address(network) }
            }
            Self::Known(customer, ip) => {
                let site = HashParty::Address(site_of(ip).unwrap_or(network_of(ip)));
                Share { site, party: HashParty::Customer(customer) }
            }
        }
    }
}

impl HashQueue {
    /// `turns_max` concurrent turns, and `waiting_max` waiting requests in each lane.
    pub(super) fn new(turns_max: usize, waiting_max: usize) -> Self {
        let lane = || RequesterLane { waiting: VecDeque::new(), waiting_max };
        Self(Arc::new(Mutex::new(WaitingRequesters {
            turns_max,
            turns_taken: 0,
            known: lane(),
            strangers: lane(),
            known_in_a_row: 0,
        })))
    }

    /// Waits for a turn. Refused if the lane is full and no party in it has more waiting requests
    /// than this one.
    pub(super) async fn turn(&self, requester: HashRequester) -> Result<HashTurn, Failure> {
        let turn = match self.enter(requester)? {
            QueueEntry::Turn(turn) => return Ok(turn),
            QueueEntry::Waits(turn) => turn,
        };
        // A displaced request sees its channel close.
        turn.await.map_err(|_| Failure::Overloaded)
    }

    fn enter(&self, requester: HashRequester) -> Result<QueueEntry, Failure> {
        let mut queue = self.0.lock();
        if queue.turns_taken < queue.turns_max {
            queue.turns_taken += 1;
            return Ok(QueueEntry::Turn(HashTurn(Some(self.clone()))));
        }
        let lane = match requester {
            HashRequester::Known(..) => &mut queue.known,
            HashRequester::Stranger(_) => &mut queue.strangers,
        };
        lane.enter(requester.share()).map(QueueEntry::Waits).ok_or(Failure::Overloaded)
    }

    /// Takes every free turn, so that the next request must wait; for tests.
    pub(super) fn occupy(&self) -> Vec<HashTurn> {
        let mut queue = self.0.lock();
        let free = queue.turns_max.saturating_sub(queue.turns_taken);
        queue.turns_taken += free;
        std::iter::repeat_with(|| HashTurn(Some(self.clone()))).take(free).collect()
    }

    /// The number of waiting requests; for tests.
    pub(super) fn waiting(&self) -> usize {
        let queue = self.0.lock();
        queue.known.waiting.len() + queue.strangers.waiting.len()
    }
}

enum QueueEntry {
    Turn(HashTurn),
    Waits(oneshot::Receiver<HashTurn>),
}

impl RequesterLane {
    /// Adds a place at the end; if the lane is full, takes one from a party that has more.
    fn enter(&mut self, share: Share) -> Option<oneshot::Receiver<HashTurn>> {
        if self.waiting.len() >= self.waiting_max {
            // Requesters that have left give up their places first.
            self.waiting.retain(|waiting| !waiting.turn.is_closed());
        }
        if self.waiting.len() >= self.waiting_max {
            let displaced = self.displaced_by(share)?;
            self.waiting.remove(displaced);
        }
        let (turn, receiver) = oneshot::channel();
        self.waiting.push_back(Waiting { share, turn });
        Some(receiver)
    }

    /// The last place of the party with the most, if after the exchange it still has at least as
    /// many as the newcomer.
    fn displaced_by(&self, newcomer: Share) -> Option<usize> {
        let by_site = self.greedy(|waiting| Some(waiting.share.site), newcomer.site);
        by_site.or_else(|| {
            // Within its own site, or from a site that has more: a site gains nothing from many
            // customers or networks.
            let mut places: HashMap<HashParty, usize> = HashMap::new();
            for waiting in &self.waiting {
                *places.entry(waiting.share.site).or_default() += 1;
            }
            let of = |site: HashParty| places.get(&site).copied().unwrap_or_default();
            let own = of(newcomer.site);
            let counted = |waiting: &Waiting| {
                let Share { site, party } = waiting.share;
                (site == newcomer.site || of(site) > own).then_some(party)
            };
            self.greedy(counted, newcomer.party)
        })
    }

    fn greedy(
        &self,
        party: impl Fn(&Waiting) -> Option<HashParty>,
        newcomer: HashParty,
    ) -> Option<usize> {
        let mut places: HashMap<HashParty, (usize, usize)> = HashMap::new();
        for (at, waiting) in self.waiting.iter().enumerate() {
            if let Some(party) = party(waiting) {
                let (count, last) = places.entry(party).or_default();
                *count += 1;
                *last = at;
            }
        }
        let own = places.get(&newcomer).map_or(0, |(count, _)| *count);
        let (most, last) = places.into_values().max_by_key(|(count, _)| *count)?;
        (most >= own + 2).then_some(last)
    }
}

impl WaitingRequesters {
    /// The next request to serve.
    fn next(&mut self) -> Option<Waiting> {
        let strangers_turn = self.known_in_a_row >= KNOWN_IN_A_ROW_MAX;
        if strangers_turn || self.known.waiting.is_empty() {
            self.known_in_a_row = 0;
            let stranger = self.strangers.waiting.pop_front();
            return stranger.or_else(|| self.known.waiting.pop_front());
        }
        self.known_in_a_row += 1;
        self.known.waiting.pop_front()
    }
}

impl Drop for HashTurn {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        let mut queue = shared.0.lock();
        let mut turn = Self(Some(shared.clone()));
        while let Some(next) = queue.next() {
            match next.turn.send(turn) {
                Ok(()) => return,
                // The requester has left, so the turn comes back.
                Err(back) => turn = back,
            }
        }
        turn.0 = None;
        queue.turns_taken = queue.turns_taken.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;

    use super::*;

    fn stranger(ip: &str) -> HashRequester {
        HashRequester::Stranger(ip.parse().unwrap())
    }

    fn known(number: u8) -> HashRequester {
        let customer = CustomerId::new(Timestamp::from_unix_micros(0), [number; 10]);
        HashRequester::Known(customer, IpAddr::from([198, 51, 100, number]))
    }

    /// A queue whose only turn is taken, and the requests that wait for it.
    struct Waiters {
        queue: HashQueue,
        taken: Vec<HashTurn>,
        waiting: Vec<(HashRequester, oneshot::Receiver<HashTurn>)>,
    }

    impl Waiters {
        fn of(waiting_max: usize) -> Self {
            let queue = HashQueue::new(1, waiting_max);
            let taken = queue.occupy();
            Self { queue, taken, waiting: Vec::new() }
        }

        /// Whether the request got a place.
        fn comes(&mut self, requester: HashRequester) -> bool {
            match self.queue.enter(requester) {
                Ok(QueueEntry::Waits(turn)) => {
                    self.waiting.push((requester, turn));
                    true
                }
                Ok(QueueEntry::Turn(_)) => panic!("no turn should be free"),
                Err(_) => false,
            }
        }

        /// Serves all waiting requests, and returns the requesters in order.
        fn all_served(mut self) -> Vec<HashRequester> {
            let mut served = Vec::new();
            self.taken.clear();
            loop {
                let next = self
                    .waiting
                    .iter_mut()
                    .enumerate()
                    .find_map(|(at, (_, turn))| turn.try_recv().ok().map(|turn| (at, turn)));
                let Some((at, turn)) = next else { break };
                served.push(self.waiting.remove(at).0);
                drop(turn);
            }
            assert_eq!(self.queue.0.lock().turns_taken, 0, "a turn was lost");
            served
        }
    }

    #[test]
    fn network_that_fills_the_queue_displaces_only_itself() {
        let mut waiters = Waiters::of(8);
        for number in 0..20 {
            assert_eq!(waiters.comes(stranger("203.0.113.7")), number < 8, "{number}");
        }

        for honest in ["198.51.100.1", "198.51.100.2", "2001:db8::1"] {
            assert!(waiters.comes(stranger(honest)), "{honest}");
        }
        assert!(!waiters.comes(stranger("203.0.113.7")), "it already has the most places");

        let served = waiters.all_served();
        assert_eq!(served.len(), 8, "the lane must not exceed its limit");
        for honest in ["198.51.100.1", "198.51.100.2", "2001:db8::1"] {
            assert!(served.contains(&stranger(honest)), "{honest}: {served:?}");
        }
    }

    #[test]
    fn networks_of_one_ipv6_site_count_together() {
        let mut waiters = Waiters::of(8);
        for number in 0..8 {
            assert!(waiters.comes(stranger(&format!("2001:db8:1:{number}::1"))));
        }

        assert!(!waiters.comes(stranger("2001:db8:1:99::1")), "the site has all places");
        assert!(waiters.comes(stranger("2001:db8:2::1")));
        assert!(waiters.comes(stranger("198.51.100.1")));
    }

    #[test]
    fn site_shares_its_places_among_its_networks() {
        let mut waiters = Waiters::of(4);
        for _ in 0..4 {
            assert!(waiters.comes(stranger("2001:db8:1:1::1")));
        }

        assert!(
            waiters.comes(stranger("2001:db8:1:2::1")),
            "the other network of the site has none"
        );

        assert!(waiters.all_served().contains(&stranger("2001:db8:1:2::1")));
    }

    #[test]
    fn known_customers_go_first_without_starving_strangers() {
        let mut waiters = Waiters::of(8);
        for number in 0..8 {
            assert!(waiters.comes(stranger(&format!("203.0.113.{number}"))));
        }
        assert!(!waiters.comes(stranger("198.51.100.1")), "each network has one place");

        for number in 0..8 {
            assert!(waiters.comes(known(number)));
        }
        assert!(!waiters.comes(known(9)));

        let served = waiters.all_served();
        let is_known: Vec<bool> =
            served.iter().map(|one| matches!(one, HashRequester::Known(..))).collect();
        assert_eq!(is_known[..8], [true, true, true, false, true, true, true, false]);
        assert_eq!(served.len(), 16);
    }

    #[test]
    fn known_customer_cannot_take_all_places() {
        let mut waiters = Waiters::of(8);
        for _ in 0..8 {
            assert!(waiters.comes(known(1)));
        }

        assert!(waiters.comes(known(2)));
        assert!(!waiters.comes(known(1)));
    }

    #[test]
    fn known_lane_is_shared_between_networks_and_between_customers() {
        let at = |customer: u8, host: u8| {
            let HashRequester::Known(customer, _) = known(customer) else { unreachable!() };
            HashRequester::Known(customer, IpAddr::from([203, 0, 113, host]))
        };
        let (mut crowd, mut roamer) = (Waiters::of(8), Waiters::of(8));
        for number in 0..8 {
            assert!(crowd.comes(at(number, 1)));
            assert!(roamer.comes(at(1, number)));
        }

        assert!(crowd.comes(known(100)) && crowd.comes(known(100)));
        assert!(
            !crowd.comes(at(50, 1)),
            "the crowd already has more places than a customer with two"
        );
        assert!(roamer.comes(known(100)));
    }

    #[test]
    fn requester_that_left_frees_its_place() {
        let mut waiters = Waiters::of(2);
        assert!(waiters.comes(stranger("198.51.100.1")) && waiters.comes(stranger("198.51.100.2")));
        waiters.waiting.remove(0);

        assert!(waiters.comes(stranger("198.51.100.3")));
        waiters.waiting.remove(0);

        assert_eq!(waiters.all_served(), [stranger("198.51.100.3")]);
    }

    #[test]
    fn turn_sent_to_a_requester_that_left_is_passed_on() {
        let mut waiters = Waiters::of(2);
        assert!(waiters.comes(stranger("198.51.100.1")) && waiters.comes(stranger("198.51.100.2")));
        waiters.taken.clear();
        // The first has been sent the turn but has not received it yet.
        let first = waiters.waiting.remove(0);
        // Dropping the unreceived turn must not deadlock.
        drop(first);

        assert_eq!(waiters.all_served(), [stranger("198.51.100.2")]);
    }
}
