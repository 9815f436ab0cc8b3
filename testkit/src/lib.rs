//! Private servers and processes for the tests of Tidemill.
//!
//! Whatever a test starts here listens on loopback only, never runs as root, lives in a folder of its own, and
//! is gone when its value is dropped or when the test process dies, however that happens.
//!
//! Reading order: [`child`] (a process that cannot be forgotten), then [`postgres`], [`pgbouncer`],
//! [`mariadb`], [`kafka`], [`moto`] and [`nexrender`] (servers made of it), [`http_service`] (a service whose answers a test
//! decides), [`java`] (programs with jars), [`proxy`] (counts what a server is asked, and loses
//! what it says), [`webdriver`] (a browser made of it), then [`skip`] (what a test does when a component is
//! missing) and [`long`] (how much a sweep does).

pub mod child;
pub mod http_service;
pub mod java;
pub mod kafka;
pub mod long;
pub mod mariadb;
pub mod moto;
pub mod nexrender;
pub mod pgbouncer;
pub mod postgres;
pub mod proxy;
pub mod skip;
pub mod webdriver;

pub mod account;
mod deadline;
mod error;
mod folder;
mod keeper;
mod log;
mod port;

pub use child::{Guarded, NoLine, Signal};
pub use error::ServerError;
pub use http_service::{HttpService, Received, Reply};
pub use kafka::{KafkaOptions, PrivateKafka};
pub use long::long_or;
pub use mariadb::PrivateMariadb;
pub use nexrender::{NexrenderOptions, PrivateNexrender};
pub use pgbouncer::{PoolMode, PrivatePgbouncer};
pub use postgres::{PostgresOptions, PrivatePostgres};
pub use proxy::{CommitProxy, Loss};
pub use webdriver::{Browser, BrowserOptions, WebDriverError};
