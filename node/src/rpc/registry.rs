//! Registration of methods: arguments are read, places taken, times measured, and answers encoded, once for all.

use super::{api::Api, args::Args, error::RpcError};
use jsonrpsee::{
    RpcModule,
    types::{ErrorObjectOwned, Params},
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::{sync::Arc, time::Instant};

/// Methods of the served namespaces.
#[derive(Debug)]
pub(super) struct Registry {
    pub(super) module: RpcModule<Api>,
    namespaces: Vec<String>,
}

/// Load of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// A few reads.
    Light,
    /// As much as the limits allow: it takes a place.
    Heavy,
}

impl Registry {
    pub(super) fn new(api: Arc<Api>) -> Self {
        let namespaces = api.limits.namespaces.clone();
        Self { module: RpcModule::from_arc(api), namespaces }
    }

    /// True if the namespace of a method is served.
    pub(super) fn serves(&self, name: &str) -> bool {
        let namespace = name.split('_').next().unwrap_or_default();
        self.namespaces.iter().any(|served| served == namespace)
    }

    /// Adds a method of a few reads that takes at most `most` arguments.
    pub(super) fn light<R: Serialize + 'static>(
        &mut self,
        name: &'static str,
        most: usize,
        run: fn(&Api, &Args) -> Result<R, RpcError>,
    ) {
        self.add(name, most, Load::Light, run);
    }

    /// Adds a method that runs the EVM, or reads many blocks.
    pub(super) fn heavy<R: Serialize + 'static>(
        &mut self,
        name: &'static str,
        most: usize,
        run: fn(&Api, &Args) -> Result<R, RpcError>,
    ) {
        self.add(name, most, Load::Heavy, run);
    }

    fn add<R: Serialize + 'static>(
        &mut self,
        name: &'static str,
        most: usize,
        load: Load,
        run: fn(&Api, &Args) -> Result<R, RpcError>,
    ) {
        if !self.serves(name) {
            return;
        }
        let added = self.module.register_async_method(name, move |params, api, _| async move {
            let begun = Instant::now();
            let answer = answer(&api, params, most, load, run).await;
            api.metrics.request(name, answer.is_err(), begun.elapsed());
            answer
        });
        debug_assert!(added.is_ok(), "{name} is registered twice");
    }
}

async fn answer<R: Serialize + 'static>(
    api: &Arc<Api>,
    params: Params<'static>,
    most: usize,
    load: Load,
    run: fn(&Api, &Args) -> Result<R, RpcError>,
) -> Result<Box<RawValue>, ErrorObjectOwned> {
    let place = match load {
        Load::Light => None,
        // The places are never closed.
        Load::Heavy => Arc::clone(&api.calls).acquire_owned().await.ok(),
    };
    let api = Arc::clone(api);
    let work = move || {
        let args = Args::read(&params, most).map_err(RpcError::from)?;
        let answer = run(&api, &args)?;
        drop(place);
        to_raw_value(&answer).map_err(|error| RpcError::internal(error.to_string()))
    };
    // A panic is a bug of the node: the client gets an error, and the node goes on.
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|_| Err(RpcError::internal("the method panicked; see the node's log")));
    done.map_err(ErrorObjectOwned::from)
}
