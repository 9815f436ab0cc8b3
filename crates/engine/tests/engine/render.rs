//! Render workers on both databases: their loops run in real time, what is decided goes by a clock that the test moves.

mod adoption;
mod alert;
mod approval;
mod cancel;
mod capacity;
mod failure;
mod happy;
mod outage;
mod pause;
mod purge;
mod studio;
mod target;
mod world;
