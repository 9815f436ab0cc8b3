//! The stock binary.

fn main() -> std::process::ExitCode {
    tidemill::App::new().run()
}
