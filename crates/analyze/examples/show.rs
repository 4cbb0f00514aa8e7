#![allow(missing_docs, clippy::all, clippy::pedantic, clippy::print_stdout, clippy::unwrap_used)]
#[path = "../tests/it/support.rs"]
mod support;
fn main() {
    for a in std::env::args().skip(1) {
        let x = support::analyse(std::path::Path::new(&a)).unwrap();
        for mut f in x.findings {
            f.operations.truncate(2);
            println!("{}", serde_json::to_string_pretty(&f).unwrap());
        }
    }
}
