//! HTTP: the API, the dashboard, health and metrics.
//!
//! Reading order: [`route`] (all routes with their permissions), [`access`] (the layer that every request passes), [`api`],
//! [`dashboard`], [`lambda`] (the API for AWS clients), [`operate`] (actions of operators), [`live`] (live updates),
//! [`action`] (an extra action of the program), [`problem`] (errors). [`Server`] puts them together.

pub mod access;
pub mod action;
pub mod api;
mod connection;
pub mod dashboard;
pub mod health;
pub mod lambda;
pub mod live;
pub mod mail;
pub mod mutation;
pub mod operate;
pub mod problem;
pub mod route;
pub mod sns;
pub mod state;
pub mod webhook;

mod server;
mod system;
mod trace;

/// Boxes the future of an `async fn`, so that its body is compiled once, in this crate. Otherwise each crate that awaits it
/// compiles it again, in each of its codegen units: see ADR 0028.
pub(crate) use async_recursion::async_recursion as boxed;

pub use server::{BODY_BYTES_MAX, Server, ServerError, ServerOptions, app, state};
pub use state::{ConfigLine, Parts, RenderPart, State};
