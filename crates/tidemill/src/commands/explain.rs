//! `tidemill explain`: explains an error code, or lists the exit codes.

use crate::commands::prelude::*;

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// Error code such as TM0202, tm202 or 202; or the word exit-codes
    code: String,
}

pub(super) fn run(arguments: &Explain) -> Result<Exit> {
    if arguments.code == "exit-codes" {
        let line = |exit: &Exit| format!("{:>3}  {}\n", exit.number(), exit.meaning());
        return write_stdout(Exit::ALL.iter().map(line).collect::<String>());
    }
    let Ok(code) = arguments.code.parse::<Code>() else {
        let code: String = arguments.code.chars().take(20).collect();
        let what = format!("there is no error code {code:?}");
        let fix = "use the code from the message, such as TM0202";
        return Err(Failure::new(Code::UnknownCode, what, fix));
    };
    write_stdout(page(code))
}

// `errors` links to the folder of the documents, so that the package of this crate has the pages.
macro_rules! pages {
    ($($code:ident $file:literal)+) => {
        fn page(code: Code) -> &'static str {
            match code {
                $(Code::$code => include_str!(concat!("../../errors/TM", $file, ".md")),)+
            }
        }
    };
}

pages! {
    Unexpected "0001" Usage "0002" OutputFailed "0003" UnknownCode "0004" FileInTheWay "0005" NotNow "0006"
    UnknownKey "0101" BadValue "0102" BadSyntax "0103" FileUnreadable "0104" OpenSecret "0105"
    BadDatabaseUrl "0201" DatabaseUnreachable "0202" LoginRefused "0203" ServerTooOld "0204"
    ServerInRecovery "0205" SchemaBehind "0206" SchemaAhead "0207" MigrationChanged "0208" DiskFull "0209"
    FileNotPermitted "0210" DatabaseBusy "0211" DamagedRow "0212" StatementNotPermitted "0213"
    ConnectionsExhausted "0214" NotADatabase "0215" DatabaseFailed "0216"
    LeaseHeld "0301" LeaseLost "0302" ProcessExpired "0303"
    UnknownAlertRule "0401" NotSilenced "0402"
    NotAuthenticated "0501" NotAllowed "0502" ForeignRequest "0503" BadRequest "0504" TooManyRequests "0505"
    TooLarge "0506" KeyReused "0507" NotFound "0508" OpenListener "0509" CannotListen "0510" TooManyConnections "0511"
    HostNotAllowed "0512"
    UnknownJob "1001" UnknownExecution "1002" JobAlreadyRunning "1003" JobAlreadyComplete "1004"
    JobNotRestartable "1005" JobOutcomeUnknown "1006" BadJobParameters "1007" ExecutionNotRunning "1008"
    ExecutionStillRunning "1009" ExecutionOwnerAlive "1010" ContextTooLarge "1011" BadJobDefinition "1012"
    ExecutionFailed "1013" ExecutionStopped "1014" ExecutionAbandoned "1015" StepStartLimitReached "1016"
    SkipLimitExceeded "1017" TooManyExecutions "1018" JobChanged "1019" BadJobFile "1020" BadPartitions "1021"
    CommandFailed "1022" BadSchedule "1023" UnknownSchedule "1024" BadBackfill "1025"
    BadRetention "1026" FileNotAllowed "1027" OutputElsewhere "1028" RemoteFailed "1029"
    PoolNotFound "1201" PoolTaken "1202" PoolInUse "1203" PoolFull "1204" RequestExceedsPool "1205"
    BadPoolSettings "1206" PoolLeaseGone "1207" SignatureRefused "1208" CommandNotStarted "1209"
    BadPoolImport "1210" ViewNameTaken "1211" HintNotRewritten "1230" HintTooLong "1231"
    BadEvent "1401" BadSink "1402" VerifyFailed "1403" UnknownFailedEvent "1404" FailedEventRefused "1405"
    NotifyUnsupported "1406" RelayRefused "1407" EventNotFound "1408" DamagedRelay "1409" SinkGone "1412"
    BadKafkaOption "1420" BadKafkaSettings "1421" BadTableName "1430" TableNotFit "1431"
    AttachUnsupported "1432" NotAttached "1433" AttachedRowRefused "1434"
    ReceiptsNotFit "1440" ReceiptsOfAnother "1441" BadReceipt "1442" KafkaUnreachable "1450"
    TopicUnreadable "1451" OffsetGone "1452" EarlierRunOpen "1453" BadMessageId "1454" BadRenderData "1501"
    RenderDataTooLarge "1502" FieldsNotMapped "1503" BadFieldMapping "1504" BadProfile "1505"
    UnsafeComposition "1506" NotOnAllowList "1507" BadPath "1508" PathNotMapped "1509"
    BadBroadcastDate "1510" RenderOrderRefused "1511" NexrenderDown "1520" NexrenderSecretRefused "1521"
    NotNexrender "1522" RenderRejected "1523" TemplateMissing "1524" AssetMissing "1525"
    TemplateNotFit "1526" RenderFailed "1527" RenderTimedOut "1528" RenderStalled "1529"
    RenderNotPicked "1530" RenderLost "1531" RenderRemoteCancelled "1532" RenderWorkerLost "1533"
    OutputInvalid "1534" NasFailed "1535" NasRefused "1536" NasNotMounted "1537" OutputConflict "1538"
    RenderKeyMissing "1539" RenderDataSealed "1540" BadRenderKey "1541"
    RenderToolMissing "1542" InspectionTimedOut "1543" RenderNameTaken "1544"
    RenderNotFound "1546" UnknownComposition "1547" SupabaseNotSpoken "1548" BadRenderSettings "1549"
    RenderUnanswered "1553" NasUnwritable "1554" BadRenderSheet "1555" BadTemplate "1556" RenderNotApproved "1557"
    RenderTargetDown "1560"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_of_its_code_and_says_what_to_do() {
        for code in Code::ALL.iter().copied() {
            let page = page(code);
            assert_eq!(page.lines().next(), Some(format!("# {code}: {}", code.title()).as_str()));
            assert!(page.contains("## What to do"), "{code}");
            let exit = format!("Exit code: {} ({}).", code.exit().number(), code.exit().meaning());
            assert!(page.contains(&exit), "{code}: {exit}");
        }
    }

    #[test]
    fn there_is_no_page_without_a_code() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let stem = name.strip_suffix(".md").unwrap();
            assert!(stem == "README" || stem.parse::<Code>().is_ok(), "{name}");
        }
    }
}
