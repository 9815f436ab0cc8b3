//! Services of AWS, as moto plays them and as their public description says.
#![cfg(test)]

mod credentials;
