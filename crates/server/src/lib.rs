//! HTTP: the API, the dashboard, health and metrics.
//!
//! Reading order: [`route`] (every route with what it needs, in one table), [`access`] (the one layer that every
//! request passes), [`api`] and [`dashboard`] (what is behind it), [`lambda`] (the API as AWS clients call it),
//! [`operate`] (the actions of operators), [`live`] (changes as they happen), [`action`] (what a program adds),
//! [`problem`] (errors). [`Server`] puts them together.

pub mod access;
pub mod action;
pub mod api;
mod body;
mod connection;
pub mod dashboard;
pub mod health;
pub mod lambda;
pub mod live;
pub mod mutation;
pub mod operate;
pub mod problem;
pub mod route;
pub mod state;
pub mod webhook;

mod server;

/// Boxes the future of an `async fn`, so that its body is compiled once, in this crate. Otherwise each crate that awaits it
/// compiles it again, in each of its codegen units: see ADR 0028.
pub(crate) use async_recursion::async_recursion as boxed;

pub use server::{BODY_BYTES_MAX, Server, ServerError, ServerOptions, app, state};
pub use state::{ConfigLine, Parts, RenderPart, State};
