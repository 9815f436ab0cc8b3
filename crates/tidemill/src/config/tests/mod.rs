//! Loading as a whole, from files, variables and flags that the tests make up.
#![cfg(test)]

pub(super) mod property;

mod alert;
mod connection;
mod database;
mod hostile;
mod jwt;
mod kafka;
mod lambda;
mod on_demand;
mod outbox;
mod places;
mod pools;
mod precedence;
mod probe;
mod reading;
mod render;
mod secrets;
mod stage;
