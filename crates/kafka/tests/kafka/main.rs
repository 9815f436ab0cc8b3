//! The publisher on a real broker, read by a client that is not ours; and on the client's own mock cluster, where errors
//! have to be made to order.
#![cfg(test)]

mod broker;
mod mock;
mod outage;
mod partition;
mod produce;
mod publish;
mod reader;
mod refusal;
mod secure;
mod site;
mod transactional;
mod verify;
mod watched;
mod writer;
