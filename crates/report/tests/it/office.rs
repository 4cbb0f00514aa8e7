//! The workbook opened by a spreadsheet program. Skipped, with a word, where none is installed.

use std::path::Path;
use std::process::Command;

use jarvis_report::render::xlsx;

use crate::support::awkward;

/// Converts the workbook's first sheet; `None` if the program is not installed.
fn converted(bytes: &[u8], folder: &Path) -> Option<String> {
    let book = folder.join("book.xlsx");
    std::fs::write(&book, bytes).unwrap();
    // A profile of its own: two conversions at once would fight over the user's.
    let profile = format!("-env:UserInstallation=file://{}", folder.join("profile").display());
    let run = Command::new("libreoffice")
        .args([&profile, "--headless", "--convert-to", "csv:Text - txt - csv (StarCalc):44,34,76,1"])
        .arg("--outdir")
        .args([folder, &book])
        .output()
        .ok()?;
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{said}");
    let trouble = ["warning", "error", "repair", "corrupt"];
    // The Java notice is about the program's own installation.
    let lines = said.lines().filter(|line| !line.contains("javaldx"));
    let odd: Vec<&str> = lines.filter(|l| trouble.iter().any(|word| l.to_lowercase().contains(word))).collect();
    assert!(odd.is_empty(), "{odd:?}");
    Some(std::fs::read_to_string(folder.join("book.csv")).unwrap())
}

#[test]
fn a_spreadsheet_program_opens_the_workbook() {
    let folder = tempfile::tempdir().unwrap();
    let rendered = xlsx::render(&awkward()).unwrap();
    let Some(csv) = converted(&rendered.bytes, folder.path()) else {
        println!("skipped: libreoffice is not installed");
        return;
    };
    let lines: Vec<&str> = csv.lines().collect();
    // Texts in quotes, numbers as the sheet shows them.
    assert_eq!(lines[0], r#""name","time ms","percent","TFLOPS/s","Count","is_recompute","nothing""#);
    assert_eq!(lines[1], r#""aten::mm",31.90,31.9,31.90,8,TRUE,"#);
    // The text is still the text: no formula was run.
    assert!(csv.contains("=HYPERLINK(\"\"http://x\"\")"), "{csv}");
    assert!(csv.contains("@SUM(A1)") && csv.contains("µs ✓ 😀"), "{csv}");
    assert!(csv.contains("9007199254740993"), "{csv}");
}
