//! A value can't be printed, serialised, cloned, compared or put into a reply.

#[test]
fn values_stay_inside_their_type() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
}
