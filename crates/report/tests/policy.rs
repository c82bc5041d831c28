//! Every page forbids what it does not need.

#[test]
fn comparison_page_loads_and_sends_nothing() {
    let page = report::compare_html(&[], "a", "b");
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
                  style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">";
    assert!(page.contains(policy), "{page}");
    assert!(!page.contains("<script"), "{page}");
}
