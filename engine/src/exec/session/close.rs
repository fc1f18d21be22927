//! Sum of the changes of an open block so far.

use crate::exec::session::BlockSession;
use crate::{
    exec::{
        cells::{Cells, Changed},
        context::ExecContext,
        overlay::Overlay,
        run::{After, Run},
    },
    model::{Error, Stage, observe, observe_fork},
    state::Changes,
};
use alloy_primitives::U256;
use phalanx_merkle::Delta;
use phalanx_paralyze::StateKey;
use rayon::prelude::*;
use revm::context::BlockEnv;

/// Number of cells that one task searches for changes.
const GATHER_PIECE: usize = 4096;

impl<'s> BlockSession<'s> {
    /// Takes the block out as it is. The rest is of use only for the memory of its cells.
    ///
    /// # Errors
    /// The store is corrupt.
    pub(crate) fn take(&mut self, ctx: &ExecContext<'_>) -> Result<Run<'s>, Error> {
        let after = observe(ctx.observer, Stage::Execute, || match self.ground.take() {
            Some(ground) if ground.is_of_one_incarnation() => self.stand_on(ground, ctx),
            ground => self.after(ctx, ground),
        })?;
        let (order, outcomes) = (core::mem::take(&mut self.order), core::mem::take(&mut self.outcomes));
        let left = self.left.iter().map(|left| left.tx).collect();
        Ok(Run { order, outcomes, after, left, stats: self.stats })
    }

    /// Copies the block as it is. O(block).
    ///
    /// # Errors
    /// The store is corrupt.
    pub(crate) fn copy(&mut self, ctx: &ExecContext<'_>) -> Result<Run<'s>, Error> {
        let ground = self.ground.clone();
        let after = observe(ctx.observer, Stage::Execute, || self.after(ctx, ground))?;
        let (order, outcomes) = (self.order.clone(), self.outcomes.clone());
        Ok(Run { order, outcomes, after, left: Vec::new(), stats: self.stats })
    }

    /// The state after the transactions, which are through: what is done from now on lies above the cells.
    fn stand_on(&mut self, ground: Overlay<'s>, ctx: &ExecContext<'_>) -> Result<After<'s>, Error> {
        let (keys, cells) = (core::mem::take(&mut self.keys), core::mem::take(&mut self.cells));
        let mut overlay = ground.above(keys, cells.settle());
        if let Some(owed) = self.owed.take() {
            overlay.credit(ctx.env.beneficiary, owed)?;
        }
        Ok(After::Overlay(overlay))
    }

    /// State after the transactions.
    fn after(&mut self, ctx: &ExecContext<'_>, ground: Option<Overlay<'s>>) -> Result<After<'s>, Error> {
        match ground {
            Some(ground) => {
                let Self { keys, cells, owed, .. } = self;
                Ok(After::Overlay(folded(ground, ctx.env, keys, cells, *owed)?))
            }
            None => self.changes(ctx).map(After::Changes),
        }
    }

    /// Puts what the cells hold into the ground, the rewards paid.
    pub(super) fn fold(&mut self, ctx: &ExecContext<'_>) -> Result<(), Error> {
        let ground = self.ground.take().unwrap_or_else(|| Overlay::new(self.state, ctx.rules()));
        let Self { keys, cells, owed, .. } = self;
        self.ground = Some(folded(ground, ctx.env, keys, cells, *owed)?);
        self.forget_cells();
        Ok(())
    }

    /// Gathers the values of the cells over the committed state, and pays the owed rewards.
    fn changes(&mut self, ctx: &ExecContext<'_>) -> Result<Changes, Error> {
        let (state, env) = (self.state, ctx.env);
        let Self { keys, cells, owed, .. } = self;
        let beneficiary = StateKey::Basic(env.beneficiary);
        if *owed == Some(U256::ZERO) {
            // Before EIP-161 touching the beneficiary creates an empty account.
            let rules = ctx.rules();
            if !rules.clears_empty && !state.load(&beneficiary)?.0.exists {
                return folded(Overlay::new(state, rules), env, keys, cells, *owed)?.into_changes();
            }
        }
        let owed = owed.filter(|owed| !owed.is_zero());
        let (cells, keys) = (cells.still(), &keys[..]);
        let gather = |piece: usize| {
            let mut gathered = Gathered::new(GATHER_PIECE.min(keys.len()));
            let ids = (piece * GATHER_PIECE)..keys.len().min((piece + 1) * GATHER_PIECE);
            for id in cells.changed_of(ids) {
                let (key, origin) = (&keys[id.index()], cells.origin(id));
                // Each part is copied once: a copy that is copied again at once would stall.
                let mut value = cells.get(id);
                value.incarnation = state.incarnation(key.address());
                if let StateKey::Basic(address) = key {
                    if *address == env.beneficiary
                        && let Some(owed) = owed
                    {
                        // Transfers to the beneficiary credit its cell as well.
                        (value.number, value.exists) = (value.number.saturating_add(owed), true);
                        gathered.paid = true;
                    }
                    if cells.is_recoded(id) {
                        state.note(&mut gathered.changes, *address, &state.load(key)?.0, &value);
                    }
                }
                state.put(&mut gathered.changes, key, &value, origin);
            }
            Ok(gathered)
        };
        let pieces = keys.len().div_ceil(GATHER_PIECE);
        let Gathered { mut changes, paid } = if pieces > 1 {
            observe_fork(ctx.observer, Stage::Execute, pieces, || {
                let pieces = (0..pieces).into_par_iter().with_max_len(1);
                ctx.workers.install(|| pieces.map(gather).collect::<Result<Vec<_>, Error>>())
            })?
            .into_iter()
            .fold(Gathered::new(0), Gathered::then)
        } else {
            gather(0)?
        };
        if let Some(owed) = owed
            && !paid
        {
            let (mut value, origin) = state.load(&beneficiary)?;
            (value.number, value.exists) = (value.number.saturating_add(owed), true);
            state.put(&mut changes, &beneficiary, &value, &origin);
        }
        Ok(changes)
    }
}

/// Values of some of the cells.
struct Gathered {
    changes: Changes,
    /// True if the owed reward is among them.
    paid: bool,
}

impl Gathered {
    /// Creates an empty sum with room for the changes of `keys` keys.
    fn new(keys: usize) -> Self {
        let delta = Delta::with_capacity(keys);
        Self { changes: Changes { delta, ..Changes::default() }, paid: false }
    }

    /// Appends the values of later cells.
    fn then(mut self, later: Self) -> Self {
        self.changes.append(later.changes);
        self.paid |= later.paid;
        self
    }
}

/// The ground under what the cells hold, the rewards paid.
fn folded<'s>(
    mut ground: Overlay<'s>,
    env: &BlockEnv,
    keys: &[StateKey],
    cells: &mut Cells,
    owed: Option<U256>,
) -> Result<Overlay<'s>, Error> {
    for Changed { id, mut value, .. } in cells.changed() {
        let key = &keys[id.index()];
        value.incarnation = ground.incarnation(key.address());
        ground.set(key, &value);
    }
    if let Some(owed) = owed {
        ground.credit(env.beneficiary, owed)?;
    }
    Ok(ground)
}
