//! Settings with named values: the words of results and of the command line.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use phalanx::{
    Executor, Order, RootKind, Traces,
    merkle::{Durability, HashFn, Reading},
    paralyze::Layers,
    revm::primitives::hardfork::SpecId,
};

/// Values of a setting, each with its name in results and on the command line, and its help.
pub type Words<T> = &'static [(T, &'static str, &'static str)];

/// A setting with named values.
pub trait Word: Copy + PartialEq + Send + Sync + 'static {
    /// Every value with its name and its help.
    const WORDS: Words<Self>;

    /// Name of the value in results and on the command line.
    fn word(self) -> &'static str {
        name_of(Self::WORDS, &self)
    }
}

/// Name of one of these values.
pub fn name_of<T: PartialEq>(words: Words<T>, value: &T) -> &'static str {
    words.iter().find(|(known, ..)| known == value).map_or("", |(_, word, _)| word)
}

/// Name of `choice`, owned.
pub fn word(choice: impl Word) -> String {
    choice.word().to_owned()
}

/// Parser of a flag that takes one of the words of `W`.
pub fn choice<W: Word>() -> impl TypedValueParser<Value = W> {
    one_of(W::WORDS)
}

/// Parser of a flag that takes one of these values.
pub fn one_of<T: Copy + Send + Sync>(words: Words<T>) -> impl TypedValueParser<Value = T> {
    let value = |(_, word, help): &(T, &'static str, &'static str)| {
        let value = PossibleValue::new(*word);
        if help.is_empty() { value } else { value.help(*help) }
    };
    let known = move |word: String| words.iter().find(|(_, known, _)| *known == word).map(|(value, ..)| *value);
    PossibleValuesParser::new(words.iter().map(value)).map(move |word| known(word).expect("a possible value"))
}

impl Word for bool {
    const WORDS: Words<Self> = &[(true, "on", ""), (false, "off", "")];
}

impl Word for Executor {
    const WORDS: Words<Self> = &[
        (Self::Dag, "dag", "Workers on the exact per-slot DAG"),
        (Self::BlockStm, "block-stm", "Block-STM: optimistic, without predictions"),
        (Self::Sequential, "sequential", "Stock revm, in sequence"),
    ];
}

impl Word for Order {
    const WORDS: Words<Self> =
        &[(Self::Free, "free", "Order of the engine's framer"), (Self::Given, "given", "Order of generation")];
}

impl Word for Layers {
    const WORDS: Words<Self> = &[
        (Self::All, "static", "Native and ERC20 rules, access lists, learned templates, simulation for the rest"),
        (Self::WithoutTemplates, "rules", "Like static, without templates"),
        (Self::WithoutStandards, "templates", "Like static, without the ERC20 rule"),
        (Self::Simulation, "simulate", "Simulation for all"),
    ];
}

impl Word for Traces {
    const WORDS: Words<Self> = &[
        (Self::Off, "off", "revm interprets every call"),
        (Self::On, "on", "Calls with a recorded trace are replayed"),
        (Self::Checked, "check", "Replayed calls are interpreted as well, and a difference is an error"),
    ];
}

impl Word for Durability {
    const WORDS: Words<Self> = &[
        (Self::None, "none", "No log: survives only a clean end"),
        (Self::Async, "async", "Survives kill -9"),
        (Self::Block, "block", "Survives power loss: fsync per block"),
    ];
}

impl Word for Reading {
    const WORDS: Words<Self> = &[
        (Self::Direct, "direct", "Many reads in flight per thread (io_uring), past the page cache"),
        (Self::Buffered, "buffered", "Many reads in flight per thread, through the page cache"),
        (Self::Threads, "threads", "One read in flight on each of sixteen threads, through the page cache"),
    ];
}

impl Word for RootKind {
    const WORDS: Words<Self> = &[
        (Self::Twigs, Self::Twigs.name(), "Root of the store's twigs"),
        (Self::Ethereum, Self::Ethereum.name(), "Ethereum's state root, of a trie in memory beside them"),
    ];
}

impl Word for HashFn {
    const WORDS: Words<Self> =
        &[(Self::Sha256, "sha256", ""), (Self::Keccak256, "keccak256", ""), (Self::Blake3, "blake3", "")];
}

/// Hard forks of the workloads' chain.
impl Word for SpecId {
    const WORDS: Words<Self> = &[
        (Self::CANCUN, "cancun", ""),
        (Self::PRAGUE, "prague", ""),
        (Self::OSAKA, "osaka", ""),
        (Self::AMSTERDAM, "amsterdam", ""),
    ];
}
