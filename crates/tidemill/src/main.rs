//! The stock binary.

/// Rows become records in one thread and are freed in another, which is what the allocator of the C library is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tidemill::App::new().run()
}
