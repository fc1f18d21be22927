//! Registration of methods: what a method does with its arguments, and what it costs.

use super::{answer::Out, api::Api, args::Args, error::RpcError};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{collections::HashMap, sync::Arc};

/// Methods of the served namespaces.
#[derive(Debug)]
pub(super) struct Registry {
    namespaces: Vec<String>,
    pub(super) methods: HashMap<&'static str, Method>,
}

/// Says of arguments that their answer is in memory, and short: the number of bytes that it counts, or `None` if it may be neither.
pub(super) type Quick = fn(&Api, &Args) -> Option<usize>;

/// Load of a method.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// Values from memory: it runs where the request was read. With the place of an argument only if that names the newest block,
    /// or none.
    Instant(Option<usize>),
    /// A few reads. They run where the request was read if this says that memory and little work answer it.
    Light(Quick),
    /// As much as the limits allow: it takes a place.
    Heavy,
}

/// A method that runs to its end on a thread that may wait, and writes its answer to the request of an id.
pub(super) type Run = Arc<dyn Fn(&Api, &Args, &RawValue, &mut Out) -> Result<(), RpcError> + Send + Sync>;

/// A method.
#[derive(Clone)]
pub(super) enum Method {
    /// Runs with at most so many arguments.
    Run {
        most: usize,
        load: Load,
        run: Run,
    },
    /// `eth_sendRawTransaction`.
    Send,
    /// `eth_sendRawTransactionSync`.
    Wait,
    Subscribe,
    Unsubscribe,
}

impl core::fmt::Debug for Method {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Method")
    }
}

impl Registry {
    pub(super) fn new(namespaces: &[String]) -> Self {
        Self { namespaces: namespaces.to_vec(), methods: HashMap::new() }
    }

    /// True if the namespace of a method is served.
    fn serves(&self, name: &str) -> bool {
        let namespace = name.split('_').next().unwrap_or_default();
        self.namespaces.iter().any(|served| served == namespace)
    }

    /// Adds a method that waits for nothing, and takes at most `most` arguments.
    pub(super) fn instant<R: Serialize + 'static>(
        &mut self,
        name: &'static str,
        most: usize,
        run: fn(&Api, &Args) -> Result<R, RpcError>,
    ) {
        self.run(name, most, Load::Instant(None), run);
    }

    /// Adds a method that reads a state, and waits for nothing if that is the newest: the block is the last of `most` arguments.
    pub(super) fn of_state<R: Serialize + 'static>(
        &mut self,
        name: &'static str,
        most: usize,
        run: fn(&Api, &Args) -> Result<R, RpcError>,
    ) {
        self.run(name, most, Load::Instant(most.checked_sub(1)), run);
    }

    /// Adds a method of a few reads that takes at most `most` arguments.
    pub(super) fn light<R: Serialize + 'static>(
        &mut self,
        name: &'static str,
        most: usize,
        run: fn(&Api, &Args) -> Result<R, RpcError>,
    ) {
        self.light_or_quick(name, most, |_, _| None, run);
    }

    /// Adds a method of a few reads, which waits for nothing where `quick` counts bytes.
    pub(super) fn light_or_quick<R: Serialize + 'static>(
        &mut self,
        name: &'static str,
        most: usize,
        quick: Quick,
        run: fn(&Api, &Args) -> Result<R, RpcError>,
    ) {
        self.run(name, most, Load::Light(quick), run);
    }

    /// Adds a method that runs the EVM, or reads many blocks.
    pub(super) fn heavy<R: Serialize + 'static>(
        &mut self,
        name: &'static str,
        most: usize,
        run: fn(&Api, &Args) -> Result<R, RpcError>,
    ) {
        self.run(name, most, Load::Heavy, run);
    }

    fn run<R: Serialize + 'static>(
        &mut self,
        name: &'static str,
        most: usize,
        load: Load,
        run: fn(&Api, &Args) -> Result<R, RpcError>,
    ) {
        let run = move |api: &Api, args: &Args, id: &RawValue, out: &mut Out| out.result(id, &run(api, args)?);
        self.add(name, Method::Run { most, load, run: Arc::new(run) });
    }

    /// Adds a method, if its namespace is served.
    pub(super) fn add(&mut self, name: &'static str, method: Method) {
        if self.serves(name) {
            let before = self.methods.insert(name, method);
            debug_assert!(before.is_none(), "{name} is registered twice");
        }
    }
}
