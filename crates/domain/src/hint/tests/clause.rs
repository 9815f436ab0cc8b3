//! Statements whose degree is in a clause instead of a hint.

use super::{lowered, number, parse};
use crate::hint::{CannotRewrite, Degree, Level, Warning};

fn exact(n: u32) -> Degree {
    Degree::Exact(number(n))
}

fn default_or(n: u32) -> Degree {
    Degree::DefaultOr(number(n))
}

#[test]
fn the_degree_of_a_clause_counts_with_a_warning() {
    let check = |text: &str, degree: Degree| {
        let hint = parse(text);
        assert_eq!((hint.degree(), hint.clause_degree()), (degree, degree), "{text}");
        assert!(hint.warnings().contains(&Warning::Clause), "{text}");
        assert!(hint.clauses().iter().all(|clause| clause.level == Level::Clause), "{text}");
    };

    check("CREATE TABLE t PARALLEL 8 AS SELECT * FROM s", exact(8));
    check("create table t nologging parallel(degree 8)as select * from s", exact(8));
    check("CREATE TABLE t PARALLEL ( DEGREE 8 INSTANCES 2) AS SELECT * FROM s", exact(16));
    check("CREATE TABLE t PARALLEL (INSTANCES 2, DEGREE 8) AS SELECT * FROM s", exact(16));
    check("CREATE TABLE t PARALLEL (DEGREE DEFAULT INSTANCES 99) AS SELECT * FROM s", default_or(99));
    check("CREATE TABLE t PARALLEL (INSTANCES 99) AS SELECT * FROM s", default_or(99));
    check("CREATE TABLE t PARALLEL AS SELECT * FROM s", Degree::Default);
    check("CREATE TABLE t (p REFERENCES q ON DELETE CASCADE) PARALLEL 8", exact(8));
    check("CREATE MATERIALIZED VIEW v PARALLEL 4 ENABLE QUERY REWRITE AS SELECT * FROM s", exact(4));
    check("CREATE INDEX i ON t (a) LOCAL PARALLEL /* as always */ 8 -- or 16\n NOLOGGING", exact(8));
    check("ALTER INDEX i REBUILD ONLINE PARALLEL 8", exact(8));
    check("ALTER TABLE t PARALLEL\n  8", exact(8));
    check("ALTER TABLE t MOVE PARTITION p PARALLEL", Degree::Default);
    check("ALTER TABLE t PARALLEL 8; ALTER TABLE u PARALLEL 16; ALTER TABLE v PARALLEL 4;", exact(16));
    check("SELECT 1 FROM dual; ALTER INDEX i REBUILD PARALLEL 8", exact(8));
    check("ALTER SESSION FORCE PARALLEL QUERY", Degree::Default);
    check("alter session force parallel ddl parallel 8", exact(8));
    check("ALTER SESSION FORCE PARALLEL DML PARALLEL 8; INSERT INTO t SELECT * FROM s", exact(8));
    check("ALTER SESSION ENABLE PARALLEL DML", Degree::Default);
    check("EXPLAIN PLAN FOR CREATE TABLE t PARALLEL 8 AS SELECT * FROM s", exact(8));
    // A part of a statement, or a hint without its comment.
    check("PARALLEL 8", exact(8));
    check("PARALLEL(8) FULL(A)", exact(8));
    check("PARALLEL(A, 99)", default_or(99));
    // What cannot be read counts for the most that it could mean.
    check("CREATE TABLE t PARALLEL 8AS SELECT * FROM s", default_or(8));
    check("CREATE TABLE t PCTFREE 10PARALLEL 8", exact(8));
    check("CREATE TABLE t PARALLEL (DEGREE 8", default_or(8));
    check("CREATE TABLE t PARALLEL () AS SELECT * FROM s", default_or(1));
    check("CREATE TABLE t PARALLEL 0 AS SELECT * FROM s", default_or(1));
    check("CREATE TABLE t PARALLEL 99999999999 AS SELECT * FROM s", exact(u32::MAX));
    check("ALTER TABLE t PARALLEL (DEGREE 65536 INSTANCES 65536)", exact(u32::MAX));
}

#[test]
fn what_is_no_clause_does_not_count() {
    for text in [
        "SELECT parallel FROM t PARALLEL",
        "(SELECT parallel 8 FROM t)",
        "WITH parallel AS (SELECT 1 FROM dual) SELECT * FROM parallel",
        "UPDATE t SET parallel = 8",
        "CREATE TABLE t AS SELECT parallel FROM s",
        "CREATE TABLE t NOPARALLEL AS SELECT * FROM s",
        "ALTER SESSION DISABLE PARALLEL QUERY",
        "CREATE TABLE \"PARALLEL 8\" AS SELECT 'PARALLEL 8', q'[ALTER TABLE t PARALLEL 8]' FROM s",
        "COMMENT ON TABLE t IS 'PARALLEL 8'",
        "CREATE INDEX i ON t (a) -- PARALLEL 8",
        "CREATE INDEX i ON t (a) /* PARALLEL 8 */",
        "CREATE FUNCTION f RETURN NUMBER PARALLEL_ENABLE IS BEGIN RETURN 8; END;",
        "CREATE TABLE parallel8 (a NUMBER)",
    ] {
        let hint = parse(text);
        assert_eq!((hint.degree(), hint.clauses()), (Degree::None, &[][..]), "{text}");
        assert!(!hint.warnings().contains(&Warning::Clause), "{text}");
        assert_eq!(lowered(text, 1).as_deref(), Ok(text));
    }
}

#[test]
fn the_greatest_of_clauses_and_hints_counts() {
    let check = |text: &str, degree: Degree| assert_eq!(parse(text).degree(), degree, "{text}");

    check("CREATE TABLE t PARALLEL 8 AS SELECT /*+ PARALLEL(16) */ * FROM s", exact(16));
    check("CREATE TABLE t PARALLEL 8 AS SELECT /*+ PARALLEL(s 4) */ * FROM s", exact(8));
    check("CREATE TABLE t PARALLEL 8 AS SELECT /*+ NO_PARALLEL */ * FROM s", exact(8));
    check("CREATE TABLE t PARALLEL 8 AS SELECT /*+ PARALLEL(AUTO) */ * FROM s", default_or(8));
    check("CREATE TABLE t PARALLEL AS SELECT /*+ PARALLEL(8) */ * FROM s", default_or(8));
    check(
        "ALTER SESSION ENABLE PARALLEL DML; INSERT /*+ PARALLEL(32) */ INTO t SELECT * FROM s",
        default_or(32),
    );
    check("ALTER INDEX i REBUILD PARALLEL 4 /*+ PARALLEL(8) */", exact(8));
}

#[test]
fn a_clause_stays_and_the_hints_beside_it_are_lowered() {
    let text = "CREATE TABLE t PARALLEL (DEGREE 4) AS SELECT /*+ PARALLEL(16) */ * FROM s";

    assert_eq!(lowered(text, 8).unwrap(), text.replace("16", "8"));
    assert_eq!(lowered(text, 4).unwrap(), text.replace("16", "4"));
    let clause = "PARALLEL (DEGREE 4)".to_owned();
    assert_eq!(lowered(text, 3), Err(CannotRewrite::Clause { clause }));
    let clause = "PARALLEL".to_owned();
    assert_eq!(lowered("ALTER TABLE t MOVE PARALLEL", 1_000), Err(CannotRewrite::Clause { clause }));
}
