//! The services a render worker uses: nexrender, ffmpeg and a NAS.

pub mod farm;

mod blocking_pool;

pub mod inspector;
pub mod storage;

pub use farm::{BadFarm, FarmOptions, NexrenderFarm};
pub use inspector::{FfmpegInspector, InspectorOptions};
pub use storage::place::{Mount, Place, is_mounted};
pub use storage::{NasStorage, ReadBack, StorageOptions};
