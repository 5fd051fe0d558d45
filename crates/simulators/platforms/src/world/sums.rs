//! Sums of payments, starting with the newest. They are cached by blocks, so that a window of
//! millions of payments is summed quickly and exactly.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::World;
use super::trade::PaymentKind;

/// The number of payments in a block.
const BLOCK: u64 = 4096;

/// The most worlds whose sums are cached; the demo accounts have one each.
const WORLDS_MAX: usize = 64;

/// Payments are classified by their kind and by their number modulo this: platforms with more kinds
/// use the number.
pub(super) const CLASSES_OF_KIND: usize = 6;
const CLASSES: usize = CLASSES_OF_KIND * PaymentKind::ALL.len();

/// The cents and the number of payments of one class.
pub(super) type Class = (i64, u64);

/// The sum of some payments, in cents, before the platform's share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) gross_cents: i64,
    /// The part of it that was charged back.
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

/// At each position, the sum of all blocks before it, as far as counted.
type Blocks = Arc<Mutex<Vec<Sum>>>;

/// By the parameters that the payments of a world depend on; the time is not one of them.
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
