//! Sums of payments from the newest on. They are kept by blocks once they were counted, so that a
//! window of millions of payments is summed immediately and exactly.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::World;
use super::trade::PaymentKind;

/// How many payments a block has.
const BLOCK: u64 = 4096;

/// Worlds whose sums are kept; the demo accounts have one each.
const WORLDS_MAX: usize = 64;

/// Payments are distinguished by their kind and by their number modulo this: platforms that know
/// more kinds go by the number.
pub(super) const CLASSES_OF_KIND: usize = 6;
const CLASSES: usize = CLASSES_OF_KIND * PaymentKind::ALL.len();

/// The cents of the payments of one class, and how many they are.
pub(super) type Class = (i64, u64);

/// The sum of some payments, in cents, before the platform's share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) gross_cents: i64,
    /// The part of it that was taken back.
    pub(super) charged_back_cents: i64,
    /// The same payments by class.
    pub(super) classes: [Class; CLASSES],
}

impl Sum {
    fn add(&mut self, world: &World, index: u64) {
        let (kind, cents) = world.worth(index);
        self.gross_cents += cents;
        if world.chargebacks().place_of(index).is_some() {
            self.charged_back_cents += cents;
        }
        let of_kind = usize::try_from(index % CLASSES_OF_KIND as u64).unwrap_or(0);
        if let Some(class) = self.classes.get_mut(kind as usize * CLASSES_OF_KIND + of_kind) {
            class.0 += cents;
            class.1 += 1;
        }
    }
}

/// At each place the sum of all blocks before it, as far as it was counted yet.
type Blocks = Arc<Mutex<Vec<Sum>>>;

/// By what the payments of a world depend on; its time is no part of it.
static KEPT: LazyLock<Mutex<HashMap<(u64, u64), Blocks>>> = LazyLock::new(Mutex::default);

/// The sum of the payments `0..end`; `end` is at most their count.
pub(super) fn before(world: &World, end: u64) -> Sum {
    let mut sum = whole_blocks(world, end / BLOCK);
    for index in end / BLOCK * BLOCK..end {
        sum.add(world, index);
    }
    sum
}

fn whole_blocks(world: &World, count: u64) -> Sum {
    let blocks = blocks_of(world);
    let mut blocks = blocks.lock().unwrap_or_else(PoisonError::into_inner);
    let mut last = blocks.last().copied().unwrap_or_default();
    if blocks.is_empty() {
        blocks.push(last);
    }
    while (blocks.len() as u64) <= count {
        let block = blocks.len() as u64 - 1;
        for index in block * BLOCK..(block + 1) * BLOCK {
            last.add(world, index);
        }
        blocks.push(last);
    }
    usize::try_from(count).ok().and_then(|at| blocks.get(at)).copied().unwrap_or_default()
}

fn blocks_of(world: &World) -> Blocks {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let key = world.sums_key();
    if kept.len() >= WORLDS_MAX && !kept.contains_key(&key) {
        kept.clear();
    }
    Arc::clone(kept.entry(key).or_default())
}
