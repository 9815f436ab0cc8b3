//! The real nexrender, the real ffmpeg and real file systems; and small servers of our own, where an answer has to be
//! made to order.
#![cfg(test)]

mod clip;
mod dialect;
mod disk;
mod farm;
mod http;
mod inspector;
mod lossy;
mod lost;
mod object;
mod site;
mod storage;
