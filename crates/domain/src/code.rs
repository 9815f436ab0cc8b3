//! The stable codes of errors, and the exit codes of the command line.
//!
//! A code never changes its meaning and is never reused. Each has a page in `docs/errors/`, which
//! `tidemill explain CODE` prints; a test fails when one is missing.
//!
//! Ranges: 00xx the program itself, 01xx configuration, 02xx database, 03xx processes and leases,
//! 04xx alerts, 05xx the server, 10xx jobs, 12xx pools, 14xx the outbox, 15xx renders.

macro_rules! exits {
    ($($number:literal $name:ident $meaning:literal;)+) => {
        /// Exit codes of `tidemill`. Scripts depend on these numbers.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Exit {
            $(#[doc = $meaning] $name = $number,)+
        }

        impl Exit {
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$name,)+];

            pub const fn number(self) -> u8 {
                self as u8
            }

            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)+ }
            }
        }
    };
}

exits! {
    0 Ok "ok";
    1 Failure "unexpected failure";
    2 Usage "wrong usage or configuration";
    3 NotFound "not found";
    4 Denied "not authenticated or not permitted";
    5 Conflict "conflict or illegal state";
    6 Unreachable "server or database unreachable";
    7 TimedOut "wait timed out";
    8 NotAdmitted "admission denied";
    10 ExecutionFailed "execution FAILED";
    11 ExecutionStopped "execution STOPPED";
    12 ExecutionAbandoned "execution ABANDONED";
}

macro_rules! codes {
    ($($number:literal $name:ident -> $exit:ident, $title:literal;)+) => {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Code {
            $(#[doc = $title] $name = $number,)+
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }

            pub const fn exit(self) -> Exit {
                match self { $(Self::$name => Exit::$exit,)+ }
            }
        }
    };
}

codes! {
    1 Unexpected -> Failure, "unexpected error";
    2 Usage -> Usage, "invalid command line";
    3 OutputFailed -> Failure, "the output could not be written";
    4 UnknownCode -> NotFound, "there is no such error code";
    5 FileInTheWay -> Conflict, "a file to be written already exists";
    6 NotNow -> Conflict, "this cannot be done now";
    101 UnknownKey -> Usage, "unknown configuration key";
    102 BadValue -> Usage, "a configuration value is not allowed";
    103 BadSyntax -> Usage, "the configuration file is not valid TOML";
    104 FileUnreadable -> Usage, "a configuration or secret file cannot be read";
    105 OpenSecret -> Usage, "a secret is written in plain text";
    201 BadDatabaseUrl -> Usage, "invalid database URL";
    202 DatabaseUnreachable -> Unreachable, "the database cannot be reached";
    203 LoginRefused -> Denied, "the database refused the login";
    204 ServerTooOld -> Conflict, "the database server is too old";
    205 ServerInRecovery -> Conflict, "the database server is a standby";
    206 SchemaBehind -> Conflict, "the database schema is missing or behind";
    207 SchemaAhead -> Conflict, "the database schema is newer than this program";
    208 MigrationChanged -> Conflict, "an applied migration differs from the one in this program";
    209 DiskFull -> Failure, "the database cannot write: the disk is full";
    210 FileNotPermitted -> Denied, "no permission to use the database file or its folder";
    211 DatabaseBusy -> Conflict, "the database was locked for too long";
    212 DamagedRow -> Failure, "a stored row breaks the rules";
    213 StatementNotPermitted -> Denied, "the database user may not do this";
    214 ConnectionsExhausted -> Unreachable, "no database connection became free in time";
    215 NotADatabase -> Conflict, "the file is not a Tidemill database";
    216 DatabaseFailed -> Failure, "the database reported an error";
    301 LeaseHeld -> Conflict, "the lease is held by another process";
    302 LeaseLost -> Conflict, "the lease was lost to another process";
    303 ProcessExpired -> Conflict, "this process was silent for too long and counts as dead";
    401 UnknownAlertRule -> NotFound, "there is no such alert rule";
    402 NotSilenced -> NotFound, "no such silence is in force";
    501 NotAuthenticated -> Denied, "no valid credentials were given";
    502 NotAllowed -> Denied, "the caller may not do this";
    503 ForeignRequest -> Denied, "the request came from another site";
    504 BadRequest -> Usage, "invalid request";
    505 TooManyRequests -> Conflict, "too many requests in a short time";
    506 TooLarge -> Usage, "the request is too large";
    507 KeyReused -> Conflict, "the idempotency key was used for another request";
    508 NotFound -> NotFound, "the named object does not exist";
    509 OpenListener -> Usage, "listening beyond this host needs authentication";
    510 CannotListen -> Unreachable, "the server cannot listen at this address";
    511 TooManyConnections -> Unreachable, "every connection of the server is in use";
    512 HostNotAllowed -> Denied, "the server does not answer to this host name";
    1001 UnknownJob -> NotFound, "there is no such job";
    1002 UnknownExecution -> NotFound, "there is no such execution";
    1003 JobAlreadyRunning -> Conflict, "the job is already running with these parameters";
    1004 JobAlreadyComplete -> Conflict, "the job has already been completed or abandoned with these parameters";
    1005 JobNotRestartable -> Conflict, "the job does not allow a restart";
    1006 JobOutcomeUnknown -> Conflict, "the outcome of an earlier execution is unknown";
    1007 BadJobParameters -> Usage, "the job parameters are not accepted";
    1008 ExecutionNotRunning -> Conflict, "the execution is not running";
    1009 ExecutionStillRunning -> Conflict, "the execution is still running";
    1010 ExecutionOwnerAlive -> Conflict, "the process that runs the execution is alive";
    1011 ContextTooLarge -> Failure, "an execution context is too large to be stored";
    1012 BadJobDefinition -> Usage, "the definition of a job is not accepted";
    1013 ExecutionFailed -> ExecutionFailed, "the execution failed";
    1014 ExecutionStopped -> ExecutionStopped, "the execution was stopped before it was done";
    1015 ExecutionAbandoned -> ExecutionAbandoned, "the execution was abandoned";
    1016 StepStartLimitReached -> Conflict, "a step has reached its start limit";
    1017 SkipLimitExceeded -> ExecutionFailed, "more items failed than the step may skip";
    1018 TooManyExecutions -> Conflict, "this process has reached its maximum number of executions";
    1019 JobChanged -> Conflict, "the definition of the job has changed since its last execution";
    1020 BadJobFile -> Usage, "a job file is not accepted";
    1021 BadPartitions -> ExecutionFailed, "a step cannot be divided into these partitions";
    1022 CommandFailed -> ExecutionFailed, "a command that a step runs has failed";
    1023 BadSchedule -> Usage, "the definition of a schedule is not accepted";
    1024 UnknownSchedule -> NotFound, "there is no such schedule";
    1025 BadBackfill -> Usage, "the backfill is not accepted";
    1026 BadRetention -> Usage, "invalid retention settings";
    1027 FileNotAllowed -> ExecutionFailed, "a file is outside the folders that the job may use";
    1028 OutputElsewhere -> NotFound, "the output of the steps is on another machine or in another folder";
    1029 RemoteFailed -> ExecutionFailed, "work that another system runs for a step has failed";
    1201 PoolNotFound -> NotFound, "there is no such pool";
    1202 PoolTaken -> Conflict, "there is already a pool of this name or external id";
    1203 PoolInUse -> Conflict, "the pool is in use";
    1204 PoolFull -> NotAdmitted, "the pool did not admit the request in time";
    1205 RequestExceedsPool -> Usage, "the request is larger than the pool";
    1206 BadPoolSettings -> Usage, "the settings of the pool are not accepted";
    1207 PoolLeaseGone -> Conflict, "there is no such pool lease, or a newer attempt has it";
    1208 SignatureRefused -> Denied, "the signature of the request is not accepted";
    1209 CommandNotStarted -> Failure, "the command could not be started";
    1210 BadPoolImport -> Usage, "invalid pool import";
    1211 ViewNameTaken -> Conflict, "the name of a view is taken";
    1230 HintNotRewritten -> Conflict, "the hint cannot be rewritten";
    1231 HintTooLong -> Usage, "the hint is too long";
    1401 BadEvent -> Usage, "the event is not accepted";
    1402 BadSink -> Usage, "invalid sink";
    1403 VerifyFailed -> Failure, "the published records do not match the outbox";
    1404 UnknownFailedEvent -> NotFound, "there is no such failed event";
    1405 FailedEventRefused -> Conflict, "the event does not allow this now";
    1406 NotifyUnsupported -> Conflict, "this database has no notifications";
    1407 RelayRefused -> Conflict, "the relay may not join the others";
    1408 EventNotFound -> NotFound, "there is no such event";
    1409 DamagedRelay -> Failure, "the row of a relay is damaged";
    1412 SinkGone -> Failure, "the reader of the sink is gone";
    1420 BadKafkaOption -> Usage, "an option of the Kafka client is not allowed";
    1421 BadKafkaSettings -> Usage, "the settings of Kafka are not accepted";
    1430 BadTableName -> Usage, "the name of the table is not accepted";
    1431 TableNotFit -> Conflict, "the table cannot be attached as it is";
    1432 AttachUnsupported -> Conflict, "this database cannot have attached tables";
    1433 NotAttached -> NotFound, "the table is not attached";
    1434 AttachedRowRefused -> Conflict, "the row does not allow this now";
    1440 ReceiptsNotFit -> Conflict, "the topic of receipts cannot be used as it is";
    1441 ReceiptsOfAnother -> Conflict, "the receipts belong to another database";
    1442 BadReceipt -> Failure, "a receipt cannot be read";
    1450 KafkaUnreachable -> Unreachable, "Kafka did not answer in time";
    1451 TopicUnreadable -> NotFound, "a topic cannot be read";
    1452 OffsetGone -> Conflict, "records to be read are no longer in the topic";
    1453 EarlierRunOpen -> Conflict, "an earlier instance of the job has not ended";
    1454 BadMessageId -> Usage, "the name of a consumer or the id of a message is not accepted";
    1501 BadRenderData -> Usage, "the data of the render is not accepted";
    1502 RenderDataTooLarge -> Usage, "the data of the render is too large";
    1503 FieldsNotMapped -> Usage, "fields of the render and of its composition do not match";
    1504 BadFieldMapping -> Usage, "the field mapping is not accepted";
    1505 BadProfile -> Usage, "the profile of the composition is not accepted";
    1506 UnsafeComposition -> Usage, "the name of the composition is not accepted";
    1507 NotOnAllowList -> Denied, "the render needs something that is not on the allow-list";
    1508 BadPath -> Usage, "the path is not accepted";
    1509 PathNotMapped -> Usage, "the path is not mapped";
    1510 BadBroadcastDate -> Usage, "the broadcast date is not accepted";
    1511 RenderOrderRefused -> Conflict, "the render does not allow this now";
    1520 NexrenderDown -> Unreachable, "nexrender cannot be reached";
    1521 NexrenderSecretRefused -> Denied, "nexrender does not accept the secret";
    1522 NotNexrender -> Usage, "the server at this address is not nexrender";
    1523 RenderRejected -> Failure, "nexrender does not take the job";
    1524 TemplateMissing -> NotFound, "the template is not where it should be";
    1525 AssetMissing -> NotFound, "a file that the render needs is not there";
    1526 TemplateNotFit -> Conflict, "the template does not have what the render needs";
    1527 RenderFailed -> Failure, "the render node reports an error";
    1528 RenderTimedOut -> TimedOut, "the render took too long";
    1529 RenderStalled -> TimedOut, "the render made no progress for too long";
    1530 RenderNotPicked -> TimedOut, "no render node took the job in time";
    1531 RenderLost -> Failure, "nexrender no longer knows the job";
    1532 RenderRemoteCancelled -> Failure, "the job was cancelled in nexrender";
    1533 RenderWorkerLost -> Failure, "the workers of the render disappeared too often";
    1534 OutputInvalid -> Failure, "the rendered file is invalid";
    1535 NasFailed -> Unreachable, "the NAS cannot be written now";
    1536 NasRefused -> Denied, "the NAS does not take the file";
    1537 NasNotMounted -> Unreachable, "the NAS is not mounted";
    1538 OutputConflict -> Conflict, "another file or object has the final name";
    1539 RenderKeyMissing -> Usage, "the key of the render's data is not configured";
    1540 RenderDataSealed -> Failure, "the data of the render cannot be decrypted";
    1541 BadRenderKey -> Usage, "the keys for the data of renders are not accepted";
    1542 RenderToolMissing -> Usage, "ffprobe or ffmpeg cannot be run";
    1543 InspectionTimedOut -> TimedOut, "checking the rendered file took too long";
    1544 RenderNameTaken -> Conflict, "nexrender has a job of another queue under this name";
    1546 RenderNotFound -> NotFound, "there is no such render";
    1547 UnknownComposition -> NotFound, "unknown composition";
    1548 SupabaseNotSpoken -> Usage, "Supabase is supported only through its database";
    1549 BadRenderSettings -> Usage, "the settings of renders are not accepted";
    1553 RenderUnanswered -> Failure, "nexrender does not answer about this render";
    1554 NasUnwritable -> Unreachable, "the NAS is full or read-only";
    1555 BadRenderSheet -> Usage, "the table of renders is not accepted";
    1556 BadTemplate -> Usage, "the After Effects project cannot be read";
    1557 RenderNotApproved -> Failure, "a person has rejected the rendered file";
    1560 RenderTargetDown -> Unreachable, "an object store does not take the file of a render";
}

/// Gives an error a code: the same for all variants, or by a table, which may also have a fix for each.
macro_rules! coded {
    ($error:ident, $code:ident) => {
        impl $error {
            pub const fn code(&self) -> $crate::code::Code {
                $crate::code::Code::$code
            }
        }
    };
    ($error:ident { $($variant:ident $(| $other:ident)* => $code:ident;)+ }) => {
        impl $error {
            pub const fn code(&self) -> $crate::code::Code {
                match self { $(Self::$variant { .. } $(| Self::$other { .. })* => $crate::code::Code::$code,)+ }
            }
        }
    };
    ($error:ident { $($variant:ident $(| $other:ident)* => $code:ident, $fix:literal;)+ }) => {
        $crate::code::coded!($error { $($variant $(| $other)* => $code;)+ });
        $crate::code::fixes!($error { $($variant $(| $other)* => $fix;)+ });
    };
}

/// Says for each variant of an error what to do about it.
macro_rules! fixes {
    ($error:ident { $($variant:ident $(| $other:ident)* => $fix:literal;)+ }) => {
        impl $error {
            pub const fn fix(&self) -> &'static str {
                match self { $(Self::$variant { .. } $(| Self::$other { .. })* => $fix,)+ }
            }
        }
    };
}

pub(crate) use {coded, fixes};

impl Code {
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Accepts `TM0101`, `tm101` and `101`.
    fn read(text: &str) -> Option<Self> {
        let digits = match text.get(..2) {
            Some(prefix) if prefix.eq_ignore_ascii_case("TM") => &text[2..],
            _ => text,
        };
        let number: u16 = digits.parse().ok()?;
        Self::ALL.iter().copied().find(|code| code.number() == number)
    }
}

crate::newtype::display!(Code, code => "TM{:04}", code.number());

crate::newtype::parsed!(Code, Code::read, NotACode: "not an error code of Tidemill");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_in_any_spelling() {
        for code in Code::ALL.iter().copied() {
            assert_eq!(code.to_string().parse(), Ok(code));
            assert_eq!(code.to_string().to_lowercase().parse(), Ok(code));
            assert_eq!(code.number().to_string().parse(), Ok(code));
        }
        for wrong in ["", "TM", "TM9999", "한글", "TM01O1", "-1"] {
            assert_eq!(wrong.parse::<Code>(), Err(NotACode), "{wrong}");
        }
    }

    #[test]
    fn codes_are_listed_in_order_and_once() {
        assert!(Code::ALL.windows(2).all(|pair| pair[0].number() < pair[1].number()));
    }

    #[test]
    fn exit_codes_are_distinct_and_leave_the_shells_own_alone() {
        assert!(Exit::ALL.windows(2).all(|pair| pair[0].number() < pair[1].number()));
        assert!(Exit::ALL.iter().all(|exit| exit.number() < 64));
    }
}
