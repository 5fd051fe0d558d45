//! The queue of passwords that are to be hashed: few at a time, and none of those who wait can take every place.
//!
//! There are two lanes. Known customers (signed in, holding a mailed link, or logging in from a network in which their
//! login succeeded lately) go first and have places of their own, so that no flood of strangers reaches them. Within a lane
//! whoever has most waiting loses a place to whoever has fewer: a network that fills the lane displaces itself.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use domain::id::CustomerId;
use failures::Failure;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use transport::{network_of, site_of};

/// After so many known customers in a row a stranger has a turn.
const KNOWN_IN_A_ROW_MAX: u32 = 3;

/// Who wants a password hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashRequester {
    /// Nobody that we know, at this address.
    Stranger(IpAddr),
    /// A customer who has shown that it is one, at this address.
    Known(CustomerId, IpAddr),
}

/// The queue. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct HashQueue(Arc<Mutex<WaitingRequesters>>);

#[derive(Debug)]
struct WaitingRequesters {
    /// Turns that may be taken at a time.
    turns_max: usize,
    turns_taken: usize,
    known: RequesterLane,
    strangers: RequesterLane,
    known_in_a_row: u32,
}

/// Those who wait, oldest first.
#[derive(Debug)]
struct RequesterLane {
    waiting: VecDeque<Waiting>,
    waiting_max: usize,
}

#[derive(Debug)]
struct Waiting {
    share: Share,
    turn: oneshot::Sender<Turn>,
}

/// Whose places are counted together: first by site (an IPv4 address, an IPv6 /48), then by network (an IPv6 /64) or
/// customer.
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

/// A turn to hash one password. Dropping it hands it to the next.
#[derive(Debug)]
pub struct Turn(Option<HashQueue>);

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
    /// So many turns at a time, and so many places to wait in each lane.
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

    /// Waits for a turn. Refused where the lane is full and nobody in it has more waiting than this one.
    pub(super) async fn turn(&self, requester: HashRequester) -> Result<Turn, Failure> {
        let turn = match self.enter(requester)? {
            QueueEntry::Turn(turn) => return Ok(turn),
            QueueEntry::Waits(turn) => turn,
        };
        // Whoever is displaced meanwhile hears of it by the end of the channel.
        turn.await.map_err(|_| Failure::Overloaded)
    }

    fn enter(&self, requester: HashRequester) -> Result<QueueEntry, Failure> {
        let mut queue = self.0.lock();
        if queue.turns_taken < queue.turns_max {
            queue.turns_taken += 1;
            return Ok(QueueEntry::Turn(Turn(Some(self.clone()))));
        }
        let lane = match requester {
            HashRequester::Known(..) => &mut queue.known,
            HashRequester::Stranger(_) => &mut queue.strangers,
        };
        lane.enter(requester.share()).map(QueueEntry::Waits).ok_or(Failure::Overloaded)
    }

    /// Takes every free turn, so that whoever comes next must wait; for tests.
    pub(super) fn occupy(&self) -> Vec<Turn> {
        let mut queue = self.0.lock();
        let free = queue.turns_max.saturating_sub(queue.turns_taken);
        queue.turns_taken += free;
        std::iter::repeat_with(|| Turn(Some(self.clone()))).take(free).collect()
    }

    /// How many wait; for tests.
    pub(super) fn waiting(&self) -> usize {
        let queue = self.0.lock();
        queue.known.waiting.len() + queue.strangers.waiting.len()
    }
}

enum QueueEntry {
    Turn(Turn),
    Waits(oneshot::Receiver<Turn>),
}

impl RequesterLane {
    /// A place at the end, if need be that of somebody who has more of them.
    fn enter(&mut self, share: Share) -> Option<oneshot::Receiver<Turn>> {
        if self.waiting.len() >= self.waiting_max {
            // Those who went away leave their places first.
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

    /// The last place of whoever has most, if that is still no fewer than the newcomer's after the exchange.
    fn displaced_by(&self, newcomer: Share) -> Option<usize> {
        let by_site = self.greedy(|waiting| Some(waiting.share.site), newcomer.site);
        by_site.or_else(|| {
            // Of its own site, or of one that has more: a site never gains by having many customers or networks.
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
    /// Whose turn is next.
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

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        let mut queue = shared.0.lock();
        let mut turn = Self(Some(shared.clone()));
        while let Some(next) = queue.next() {
            match next.turn.send(turn) {
                Ok(()) => return,
                // It went away: the turn comes back.
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

    /// A queue whose only turn is taken, and those who wait for it.
    struct Waiters {
        queue: HashQueue,
        taken: Vec<Turn>,
        waiting: Vec<(HashRequester, oneshot::Receiver<Turn>)>,
    }

    impl Waiters {
        fn of(waiting_max: usize) -> Self {
            let queue = HashQueue::new(1, waiting_max);
            let taken = queue.occupy();
            Self { queue, taken, waiting: Vec::new() }
        }

        /// Whether it has a place now.
        fn comes(&mut self, requester: HashRequester) -> bool {
            match self.queue.enter(requester) {
                Ok(QueueEntry::Waits(turn)) => {
                    self.waiting.push((requester, turn));
                    true
                }
                Ok(QueueEntry::Turn(_)) => panic!("there is no turn"),
                Err(_) => false,
            }
        }

        /// Lets the turn go round; gives who had one, in their order.
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
            assert_eq!(self.queue.0.lock().turns_taken, 0, "the turn is lost");
            served
        }
    }

    #[test]
    fn a_network_that_fills_the_queue_displaces_itself_and_nobody_else() {
        let mut waiters = Waiters::of(8);
        for number in 0..20 {
            assert_eq!(waiters.comes(stranger("203.0.113.7")), number < 8, "{number}");
        }

        for honest in ["198.51.100.1", "198.51.100.2", "2001:db8::1"] {
            assert!(waiters.comes(stranger(honest)), "{honest}");
        }
        assert!(!waiters.comes(stranger("203.0.113.7")), "it has most already");

        let served = waiters.all_served();
        assert_eq!(served.len(), 8, "no more wait than may");
        for honest in ["198.51.100.1", "198.51.100.2", "2001:db8::1"] {
            assert!(served.contains(&stranger(honest)), "{honest}: {served:?}");
        }
    }

    #[test]
    fn the_many_networks_of_one_ipv6_site_count_as_one() {
        let mut waiters = Waiters::of(8);
        for number in 0..8 {
            assert!(waiters.comes(stranger(&format!("2001:db8:1:{number}::1"))));
        }

        assert!(!waiters.comes(stranger("2001:db8:1:99::1")), "the site has every place");
        assert!(waiters.comes(stranger("2001:db8:2::1")));
        assert!(waiters.comes(stranger("198.51.100.1")));
    }

    #[test]
    fn a_site_shares_its_places_among_its_networks() {
        let mut waiters = Waiters::of(4);
        for _ in 0..4 {
            assert!(waiters.comes(stranger("2001:db8:1:1::1")));
        }

        assert!(waiters.comes(stranger("2001:db8:1:2::1")), "a neighbour has none");

        assert!(waiters.all_served().contains(&stranger("2001:db8:1:2::1")));
    }

    #[test]
    fn known_customers_have_places_of_their_own_and_go_first_without_starving_strangers() {
        let mut waiters = Waiters::of(8);
        for number in 0..8 {
            assert!(waiters.comes(stranger(&format!("203.0.113.{number}"))));
        }
        assert!(!waiters.comes(stranger("198.51.100.1")), "every network has one place");

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
    fn one_known_customer_cannot_take_the_places_of_others() {
        let mut waiters = Waiters::of(8);
        for _ in 0..8 {
            assert!(waiters.comes(known(1)));
        }

        assert!(waiters.comes(known(2)));
        assert!(!waiters.comes(known(1)));
    }

    #[test]
    fn neither_many_customers_of_one_network_nor_one_of_many_networks_fill_the_lane_of_the_known() {
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
        assert!(!crowd.comes(at(50, 1)), "the crowd has more than whoever has two");
        assert!(roamer.comes(known(100)));
    }

    #[test]
    fn who_went_away_leaves_the_place_and_loses_no_turn() {
        let mut waiters = Waiters::of(2);
        assert!(waiters.comes(stranger("198.51.100.1")) && waiters.comes(stranger("198.51.100.2")));
        waiters.waiting.remove(0);

        assert!(waiters.comes(stranger("198.51.100.3")));
        waiters.waiting.remove(0);

        assert_eq!(waiters.all_served(), [stranger("198.51.100.3")]);
    }

    #[test]
    fn whoever_goes_away_with_a_turn_on_its_way_hands_it_on() {
        let mut waiters = Waiters::of(2);
        assert!(waiters.comes(stranger("198.51.100.1")) && waiters.comes(stranger("198.51.100.2")));
        waiters.taken.clear();
        // The first has been given the turn and has not taken it yet.
        let first = waiters.waiting.remove(0);
        // The drop of what it was given must not wait for itself.
        drop(first);

        assert_eq!(waiters.all_served(), [stranger("198.51.100.2")]);
    }
}
