//! ParaLyze: finds the access set of a transaction before it runs (FAFO §2.3).
//!
//! ```text
//! TxEnv ─► L0 native rule ─► L2 ERC20 rule ─► L3 template ─► L1 EIP-2930 list ─► L4 simulation
//!          callee has no     selector and     formulas,      declared by the     one dry run
//!          code              slot layout      learned        sender              on the snapshot
//!                                                 ▲                                   │ traced, if it pays
//!                                                 └───────────────────────────────────┘
//!          ─► (StateKey, Access)* + digests: a flat arena, each set tagged with its source
//! ```
//!
//! A prediction is a hint. The engine checks every access against it at execution, so a wrong prediction costs time, never
//! validity. The same batch on the same snapshot gives the same predictions for any number of threads.
//!
//! ```
//! use phalanx_access::{Access, Salt};
//! use phalanx_paralyze::{Batch, ParaLyze, Source, StateKey};
//! use revm::{context::{BlockEnv, CfgEnv, TxEnv}, database::EmptyDB, primitives::{Address, TxKind, U256}};
//!
//! let (alice, bob) = (Address::repeat_byte(1), Address::repeat_byte(2));
//! let tx = TxEnv { caller: alice, kind: TxKind::Call(bob), value: U256::ONE, ..Default::default() };
//! let mut batch = Batch::new();
//! let mut paralyze = ParaLyze::new(Salt::new(7), CfgEnv::default());
//! paralyze.analyse(&EmptyDB::default(), &BlockEnv::default(), &[&tx], &mut batch);
//! assert_eq!(batch.source(0), Source::Native);
//! assert_eq!(batch.sets().get(0), [(StateKey::Basic(alice), Access::Write), (StateKey::Basic(bob), Access::Credit)]);
//! ```

mod study;

mod teach;

mod analyse;

mod native;

mod declared;

mod erc20;

mod template;

mod simulate;

mod ruled;

mod handler;

mod vm;

mod mask;

mod hash_instruction;

mod chain_rules;

mod foreign_evm;

mod forced;

mod precompile;

mod batch;

mod preimage;

mod authorities;

mod snapshot;

mod key;

pub use analyse::{BATCH_LEN, Brief, DryRuns, Layers, ParaLyze, SenderFilter, may_run_dry};
pub use authorities::authorities;
pub use batch::{Batch, Source};
pub use chain_rules::{ChainRules, ChainRulesError, ExtraFee, Payments, Share, WHOLE};
pub use erc20::Erc20Layout;
pub use forced::ForcedTx;
pub use foreign_evm::{ForeignDb, ForeignEvm, ForeignFailure, Stopped};
pub use handler::{DeferredReward, Unsigned};
pub use key::StateKey;
pub use mask::{AccountMask, MaskedAccount};
pub use precompile::{Precompile, PrecompileCall, PrecompileSet, PrecompileState, Refused};
pub use preimage::{KnownSlots, Preimage, Preimages};
pub use ruled::{inspect_unsigned, run_paid, run_unpaid};
pub use simulate::{Simulator, observed};
pub use snapshot::Snapshot;
pub use template::TemplateLimits;
pub use vm::{Vm, VmConfig};
