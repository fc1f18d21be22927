//! The state machine of the pipeline.
//!
//! Every input updates the knowledge, then [`Pipeline::advance`] does everything that the knowledge permits. Rules test
//! levels, not edges: "executed and order vote durable" fires whichever comes last, so the order of arrival does not
//! matter.

mod input;
mod step;
mod commit;
mod votes;
mod decide;
mod state;
mod track;

pub use state::Pipeline;
