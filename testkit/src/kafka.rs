//! A Kafka broker of a test's own: one node that is its own controller, on loopback, and gone with its value.
//!
//! Its jars are where [`HOME`] says; `cargo xtask test` fetches them and sets it.

use crate::account::{Account, find_program};
use crate::child::{Guarded, Signal};
use crate::deadline::Deadline;
use crate::error::ServerError;
use crate::folder::Folder;
use crate::java;
use crate::log::Log;
use crate::port;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The variable with the folder that the jars of Apache Kafka are in.
pub const HOME: &str = "TIDEMILL_TEST_KAFKA_HOME";

/// The variable with the address of a broker that tests share.
pub const BOOTSTRAP: &str = "TIDEMILL_TEST_KAFKA";

/// A machine that compiles on all its cores meanwhile needs its time.
const READY_WITHIN: Duration = Duration::from_secs(180);
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
const PORTS_TRIED_MAX: u32 = 5;

/// Any id does: nobody else joins this cluster.
const CLUSTER_ID: &str = "dGlkZW1pbGwtdGVzdC0tLQ";

/// What makes it start soon, need little, and be whole with one node. Whoever writes to a topic that is not there is
/// told so.
const SETTINGS: &str = "\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=2000000
";

/// How a private broker differs from the usual one.
#[derive(Clone, Default, Debug)]
pub struct KafkaOptions {
    /// Settings of `server.properties` that come after ours.
    pub settings: Vec<(String, String)>,
    /// A further listener that asks who is there, over TLS.
    pub secure: Option<Secure>,
    /// How long it is expected to run.
    pub life: Life,
}

/// How long a broker is expected to run, which is what Java wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Life {
    /// For a few tests: it is up soon, and small.
    #[default]
    Short,
    /// Long enough to be measured: its code is compiled as that of a server.
    Long,
}

/// A listener with SASL over TLS.
#[derive(Clone, Debug)]
pub struct Secure {
    /// The PKCS #12 file with the key and the certificate of the broker.
    pub keystore: PathBuf,
    /// Its password.
    pub keystore_password: String,
    /// Who may come in, by PLAIN and by SCRAM-SHA-256.
    pub user: String,
    /// With which password.
    pub password: String,
}

/// A running broker that dies with its value, and its data with it.
#[derive(Debug)]
pub struct PrivateKafka {
    // Dropped in this order: the server before the folder that it writes to.
    server: Option<Guarded>,
    java: PathBuf,
    account: Account,
    options: KafkaOptions,
    port: u16,
    secure_port: u16,
    folder: Folder,
}

/// Why a launch did not succeed.
enum Refusal {
    /// Somebody took a port first; another one may do.
    PortTaken,
    Other(ServerError),
}

/// The folder of the jars, when somebody said where it is.
pub fn find_home() -> Option<PathBuf> {
    java::find_home(HOME)
}

impl PrivateKafka {
    /// Starts a broker, and returns once it can be asked.
    pub fn start(options: &KafkaOptions) -> Result<Self, ServerError> {
        let home = find_home().ok_or_else(|| ServerError::new(format!("{HOME} names no folder of jars")))?;
        Self::start_from(&home, options)
    }

    /// Starts a broker from the jars of a folder.
    pub fn start_from(home: &Path, options: &KafkaOptions) -> Result<Self, ServerError> {
        let java = find_program("java").ok_or_else(|| ServerError::new("there is no java"))?;
        let account = Account::for_servers()?;
        let folder = Folder::create(account)?;
        let failed = |error| ServerError::caused("cannot bring the jars of Kafka to its folder", error);
        copy_jars(home, &folder.path().join("jars"), account).map_err(failed)?;
        let mut kafka =
            Self { server: None, java, account, options: options.clone(), port: 0, secure_port: 0, folder };
        for _ in 0..PORTS_TRIED_MAX {
            (kafka.port, kafka.secure_port) = (port::free()?, port::free()?);
            kafka.configure(port::free()?)?;
            kafka.format()?;
            match kafka.launch() {
                Ok(()) => return Ok(kafka),
                Err(Refusal::PortTaken) => {}
                Err(Refusal::Other(error)) => return Err(error),
            }
        }
        Err(ServerError::new(format!("{PORTS_TRIED_MAX} ports in turn were taken before Kafka could listen")))
    }

    /// Where clients begin; a restart keeps it.
    pub fn bootstrap_servers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where clients begin that say who they are, over TLS.
    pub fn secure_servers(&self) -> String {
        format!("127.0.0.1:{}", self.secure_port)
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where its logs are: a folder for each partition.
    pub fn log_folder(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Its process id; none while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Guarded::pid)
    }

    /// Stops it in its tracks: it keeps its connections and answers nothing.
    pub fn pause(&mut self) -> Result<(), ServerError> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub fn resume(&mut self) -> Result<(), ServerError> {
        self.signal(Signal::CONT)
    }

    /// Ends it in order.
    pub fn stop(&mut self) {
        self.end_by(&[Signal::TERM, Signal::KILL]);
    }

    /// Ends it at once.
    pub fn crash(&mut self) {
        self.end_by(&[Signal::KILL]);
    }

    /// Starts it again on the same data and the same ports, after ending it if it still runs.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop();
        self.launch().map_err(|refusal| match refusal {
            Refusal::PortTaken => ServerError::new(format!("somebody else has taken port {}", self.port)),
            Refusal::Other(error) => error,
        })
    }

    fn signal(&mut self, signal: Signal) -> Result<(), ServerError> {
        let server = self.server.as_mut().ok_or_else(|| ServerError::new("the broker does not run"))?;
        server.signal(signal).map_err(|error| ServerError::caused("cannot signal the broker", error))
    }

    fn end_by(&mut self, signals: &[Signal]) {
        let Some(mut server) = self.server.take() else { return };
        // One that was paused hears nothing else.
        let _resumed = server.signal(Signal::CONT);
        for signal in signals {
            // Fails only when it has ended by itself, and then the wait below returns at once.
            let _sent = server.signal(*signal);
            if server.wait_deadline(STOPPED_WITHIN).is_some() {
                return;
            }
        }
    }

    fn properties(&self) -> PathBuf {
        self.folder.path().join("server.properties")
    }

    fn configure(&self, controller_port: u16) -> Result<(), ServerError> {
        let folder = self.folder.path();
        let failed = |error| ServerError::caused("cannot configure a private Kafka", error);
        let mut text = SETTINGS.to_owned();
        let mut listeners = format!("PLAINTEXT://127.0.0.1:{}", self.port);
        if let Some(secure) = &self.options.secure {
            let _infallible = write!(listeners, ",SASL_SSL://127.0.0.1:{}", self.secure_port);
            let keystore = folder.join("broker.p12");
            fs::copy(&secure.keystore, &keystore).map_err(failed)?;
            self.account.give(&keystore).map_err(failed)?;
            text.push_str(&secure_settings(secure, &keystore));
        }
        let _infallible = write!(
            text,
            "listeners={listeners},CONTROLLER://127.0.0.1:{controller_port}\n\
             advertised.listeners={listeners}\n\
             listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL\n\
             controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}\n\
             log.dirs={}\n",
            self.log_folder().display()
        );
        for (name, value) in &self.options.settings {
            let _infallible = writeln!(text, "{name}={value}");
        }
        fs::write(self.properties(), text)
            .and_then(|()| self.account.give(&self.properties()))
            .map_err(failed)
    }

    /// Makes the data folder, from nothing.
    fn format(&self) -> Result<(), ServerError> {
        // Left by an attempt whose port was taken.
        let _gone = fs::remove_dir_all(self.log_folder());
        let mut command = self.account.command(&self.java);
        self.machine(&mut command);
        command.args(["kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c"]);
        command.arg(self.properties());
        if let Some(Secure { user, password, .. }) = &self.options.secure {
            command.args(["--add-scram", &format!("SCRAM-SHA-256=[name={user},password={password}]")]);
        }
        let output =
            command.output().map_err(|error| ServerError::caused("cannot format a private Kafka", error))?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(ServerError::new("a private Kafka could not be formatted").with_log(complaint.trim()));
        }
        Ok(())
    }

    fn launch(&mut self) -> Result<(), Refusal> {
        // Whatever it has written is only of use to tests of ours, so it may be killed when nobody is left to stop it.
        let mut command = self.account.server_command(&self.java, "SIGKILL");
        self.machine(&mut command);
        command.arg("kafka.Kafka").arg(self.properties());
        let log = Log::attach(&self.folder.path().join("kafka.log"), &mut command).map_err(Refusal::Other)?;
        let server = Guarded::spawn(command)
            .map_err(|error| Refusal::Other(ServerError::caused("cannot run java", error)))?;
        let ready = wait_until_ready(self.server.insert(server), self.port, &log);
        if ready.is_err() {
            self.crash();
        }
        ready
    }

    /// What both of its programs are told about Java.
    fn machine(&self, command: &mut Command) {
        command.args(["-XX:+UseSerialGC", "-XX:-UsePerfData"]);
        command.args(match self.options.life {
            Life::Short => ["-Xmx384m", "-XX:TieredStopAtLevel=1"],
            Life::Long => ["-Xmx1g", "-Xms1g"],
        });
        command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
        command.arg(format!("-Dorg.slf4j.simpleLogger.log.{SPEAKER}=info"));
        command.arg("-cp").arg(self.folder.path().join("jars/*"));
    }
}

impl Drop for PrivateKafka {
    fn drop(&mut self) {
        // In order would take seconds, and nobody reads what it would write.
        self.crash();
    }
}

/// The class that says when the broker is ready, and what it says.
const SPEAKER: &str = "kafka.server.KafkaRaftServer";
const READY: &str = "Kafka Server started";

fn wait_until_ready(server: &mut Guarded, port: u16, log: &Log) -> Result<(), Refusal> {
    let deadline = Deadline::after(READY_WITHIN);
    while deadline.remaining().is_some() {
        let ended = server.wait_deadline(Duration::from_millis(20));
        let text = log.text();
        if text.contains("Address already in use") {
            return Err(Refusal::PortTaken);
        }
        if let Some(status) = ended {
            let text = format!("Kafka ended while it was starting ({status})");
            return Err(Refusal::Other(ServerError::new(text).with_log(log.tail())));
        }
        // Only its own word counts: a stranger on the same port would answer too.
        if text.contains(READY) && port::answers(port) {
            return Ok(());
        }
    }
    let text = format!("Kafka was not ready within {READY_WITHIN:?}");
    Err(Refusal::Other(ServerError::new(text).with_log(log.tail())))
}

fn secure_settings(secure: &Secure, keystore: &Path) -> String {
    let Secure { keystore_password, user, password, .. } = secure;
    format!(
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\n\
         ssl.keystore.type=PKCS12\n\
         ssl.keystore.location={}\n\
         ssl.keystore.password={keystore_password}\n\
         listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
         required user_{user}=\"{password}\";\n\
         listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=\
         org.apache.kafka.common.security.scram.ScramLoginModule required;\n",
        keystore.display()
    )
}

/// The account of servers may not reach the cache of the user, so the jars are brought to where it can.
fn copy_jars(home: &Path, to: &Path, account: Account) -> io::Result<()> {
    fs::create_dir(to)?;
    account.give(to)?;
    for entry in fs::read_dir(home)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jar") {
            let copy = to.join(path.file_name().unwrap_or_default());
            // Another name for the same file costs nothing; it needs the same file system.
            fs::hard_link(&path, &copy).or_else(|_| fs::copy(&path, &copy).map(drop))?;
        }
    }
    Ok(())
}
