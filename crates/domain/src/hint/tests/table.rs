//! Hints that a search for `PARALLEL\s*\(\s*(\d+)\s*\)` gets wrong, and similar ones: the degree, and the text when 4
//! or 1 are granted.

use super::{lowered, number, parse};
use crate::hint::Degree;

#[test]
fn hints_come_to_a_degree_and_are_lowered() {
    let check = |text: &str, degree: Degree, four: &str, one: &str| {
        assert_eq!(parse(text).degree(), degree, "{text}");
        assert_eq!(lowered(text, 4).unwrap(), four, "{text}");
        assert_eq!(lowered(text, 1).unwrap(), one, "{text}");
    };
    let exact = |n| Degree::Exact(number(n));
    let default_or = |n| Degree::DefaultOr(number(n));

    // From the source document.
    check("/*+ PARALLEL(8) FULL(A) */", exact(8), "/*+ PARALLEL(4) FULL(A) */", "/*+ NO_PARALLEL FULL(A) */");
    // Counted by the search, but not lowered by it.
    check("/*+ parallel(8) */", exact(8), "/*+ parallel(4) */", "/*+ no_parallel */");
    // Counted as 1.
    check("/*+ PARALLEL(A 8) */", exact(8), "/*+ PARALLEL(A 4) */", "/*+ PARALLEL(A 1) */");
    check("/*+ PARALLEL(A,8) */", exact(8), "/*+ PARALLEL(A,4) */", "/*+ PARALLEL(A,1) */");
    check(
        "/*+ PARALLEL(A,8) PARALLEL(B,16) PARALLEL(C,2) */",
        exact(16),
        "/*+ PARALLEL(A,4) PARALLEL(B,4) PARALLEL(C,2) */",
        "/*+ PARALLEL(A,1) PARALLEL(B,1) PARALLEL(C,1) */",
    );
    check("/*+ PARALLEL */", Degree::AtLeastTwo, "/*+ PARALLEL(4) */", "/*+ NO_PARALLEL */");
    check("/*+ PARALLEL(AUTO) */", Degree::Auto, "/*+ PARALLEL(4) */", "/*+ NO_PARALLEL */");
    check("/*+ PARALLEL( default ) */", Degree::Default, "/*+ PARALLEL( 4 ) */", "/*+ NO_PARALLEL */");
    check("/*+ PARALLEL(MANUAL) */", Degree::Manual, "/*+ PARALLEL(4) */", "/*+ NO_PARALLEL */");
    check(
        "/*+ PARALLEL_INDEX(A IX1 8) */",
        exact(8),
        "/*+ PARALLEL_INDEX(A IX1 4) */",
        "/*+ PARALLEL_INDEX(A IX1 1) */",
    );
    check(
        "/*+ PARALLEL_INDEX(@Q A, IX1, (B C.D), 8) */",
        exact(8),
        "/*+ PARALLEL_INDEX(@Q A, IX1, (B C.D), 4) */",
        "/*+ PARALLEL_INDEX(@Q A, IX1, (B C.D), 1) */",
    );
    check(
        "/*+ PARALLEL_INDEX(A IX1) */",
        Degree::Default,
        "/*+ PARALLEL_INDEX(A IX1 4) */",
        "/*+ PARALLEL_INDEX(A IX1 1) */",
    );
    check(
        "/*+ PARALLEL(@SEL$1 A@SEL$1 8) */",
        exact(8),
        "/*+ PARALLEL(@SEL$1 A@SEL$1 4) */",
        "/*+ PARALLEL(@SEL$1 A@SEL$1 1) */",
    );
    check(
        "/*+ PARALLEL(@\"SEL$1\" \"A b\"@\"SEL$1\" 8) */",
        exact(8),
        "/*+ PARALLEL(@\"SEL$1\" \"A b\"@\"SEL$1\" 4) */",
        "/*+ PARALLEL(@\"SEL$1\" \"A b\"@\"SEL$1\" 1) */",
    );
    check(
        "/*+ PARALLEL(\"Order\" 8) */",
        exact(8),
        "/*+ PARALLEL(\"Order\" 4) */",
        "/*+ PARALLEL(\"Order\" 1) */",
    );
    check("/*+ PARALLEL(v.A 8) */", exact(8), "/*+ PARALLEL(v.A 4) */", "/*+ PARALLEL(v.A 1) */");
    check("/*+ PARALLEL(A) */", Degree::Default, "/*+ PARALLEL(A 4) */", "/*+ PARALLEL(A 1) */");
    check("/*+ PARALLEL(A, DEFAULT) */", Degree::Default, "/*+ PARALLEL(A, 4) */", "/*+ PARALLEL(A, 1) */");
    check(
        "/*+ PARALLEL(\"AUTO\") */",
        Degree::Default,
        "/*+ PARALLEL(\"AUTO\" 4) */",
        "/*+ PARALLEL(\"AUTO\" 1) */",
    );
    // With instances.
    check("/*+ PARALLEL(A, 8, 2) */", exact(16), "/*+ PARALLEL(A, 4, 1) */", "/*+ PARALLEL(A, 1, 1) */");
    check("/*+ PARALLEL(A 3 2) */", exact(6), "/*+ PARALLEL(A 3 1) */", "/*+ PARALLEL(A 1 1) */");
    check("/*+ PARALLEL(A 2 2) */", exact(4), "/*+ PARALLEL(A 2 2) */", "/*+ PARALLEL(A 1 1) */");
    check("/*+ PARALLEL(A 8 DEFAULT) */", default_or(8), "/*+ PARALLEL(A 4 1) */", "/*+ PARALLEL(A 1 1) */");
    check("/*+ PARALLEL(A 8 0) */", default_or(8), "/*+ PARALLEL(A 4 1) */", "/*+ PARALLEL(A 1 1) */");
    // Counted as 8, and no hints.
    for text in ["/* PARALLEL(8) */", "/* + PARALLEL(8) */", "/*+ NOPARALLEL(8) */", "/*+ FULL(A) */", ""] {
        check(text, Degree::None, text, text);
    }
    // Counted as 0.
    check("/*+ PARALLEL(0) */", default_or(1), "/*+ PARALLEL(4) */", "/*+ NO_PARALLEL */");
    check("/*+ PARALLEL(A 0) */", default_or(1), "/*+ PARALLEL(A 4) */", "/*+ PARALLEL(A 1) */");
    // Within what is granted.
    check("/*+ PARALLEL(3) */", exact(3), "/*+ PARALLEL(3) */", "/*+ NO_PARALLEL */");
    check("/*+ PARALLEL(1) */", exact(1), "/*+ PARALLEL(1) */", "/*+ PARALLEL(1) */");
    check("/*+ NO_PARALLEL */", Degree::Serial, "/*+ NO_PARALLEL */", "/*+ NO_PARALLEL */");
    // Too large for a number.
    check(
        "/*+ PARALLEL(99999999999999999999) */",
        exact(u32::MAX),
        "/*+ PARALLEL(4) */",
        "/*+ NO_PARALLEL */",
    );
    check(
        "/*+ PARALLEL(A 65536 65536) */",
        exact(u32::MAX),
        "/*+ PARALLEL(A 4 1) */",
        "/*+ PARALLEL(A 1 1) */",
    );
    // Only what has an effect is changed; `NO_PARALLEL` alone is not relied on.
    check(
        "/*+ PARALLEL(8) PARALLEL(A 16) */",
        exact(8),
        "/*+ PARALLEL(4) PARALLEL(A 16) */",
        "/*+ NO_PARALLEL PARALLEL(A 1) */",
    );
    check(
        "/*+ FULL(A) */ /*+ PARALLEL(8) */",
        Degree::None,
        "/*+ FULL(A) */ /*+ PARALLEL(8) */",
        "/*+ FULL(A) */ /*+ PARALLEL(8) */",
    );
    // Other forms stay as written.
    check("--+ Parallel (8) full(a)", exact(8), "--+ Parallel (4) full(a)", "--+ NO_PARALLEL full(a)");
    check("/*+PARALLEL(8)FULL(A)*/", exact(8), "/*+PARALLEL(4)FULL(A)*/", "/*+PARALLEL(1)FULL(A)*/");
    check("/*+ PARALLEL(8) (A) */", exact(8), "/*+ PARALLEL(4) (A) */", "/*+ PARALLEL(1) (A) */");
    check("/*+PARALLEL*/", Degree::AtLeastTwo, "/*+PARALLEL(4)*/", "/*+NO_PARALLEL*/");
    check(
        "INSERT /*+ APPEND PARALLEL(t 2) */ INTO t\nSELECT /*+ parallel(16) */ '/*+ PARALLEL(8) */' FROM s",
        exact(16),
        "INSERT /*+ APPEND PARALLEL(t 2) */ INTO t\nSELECT /*+ parallel(4) */ '/*+ PARALLEL(8) */' FROM s",
        "INSERT /*+ APPEND PARALLEL(t 1) */ INTO t\nSELECT /*+ no_parallel */ '/*+ PARALLEL(8) */' FROM s",
    );
}
