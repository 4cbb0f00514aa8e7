//! The parts of a workbook beside its sheets, as the Office Open XML format wants them.

use std::fmt::Write as _;

use jarvis_perf::tables::{Format, Sheet};

use super::sheet;
use super::texts::escaped;

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";

/// What stands between the opening of a cell and its value: the style, by its place in [`STYLES`], and what the value is
/// if it is not a number: the number of a shared text, or 0 or 1.
pub(super) const HEADER: &str = " s=\"1\" t=\"s\"><v>";
pub(super) const TEXT: &str = " t=\"s\"><v>";
pub(super) const LONG_TEXT: &str = " t=\"inlineStr\"><is><t xml:space=\"preserve\">";
pub(super) const BOOL: &str = " t=\"b\"><v>";
pub(super) const NUMBER: &str = "><v>";

/// The same for a column's fractional numbers.
pub(super) const fn fraction(format: Format) -> &'static str {
    match format {
        Format::Plain => NUMBER,
        Format::Time => " s=\"2\"><v>",
        Format::Percent => " s=\"3\"><v>",
        Format::Quantity => " s=\"4\"><v>",
    }
}

/// Plain, bold header, and three ways to show numbers. A quantity has no decimals from a thousand on, and more of them
/// below one.
pub(super) const STYLES: &str = concat!(
    "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n",
    "<styleSheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\">",
    "<numFmts count=\"2\"><numFmt numFmtId=\"164\" formatCode=\"0.0\"/>",
    "<numFmt numFmtId=\"165\" formatCode=\"[&gt;=1000]#,##0;[&gt;=1]0.00;0.0000##\"/></numFmts>",
    "<fonts count=\"2\"><font><sz val=\"11\"/><name val=\"Calibri\"/><family val=\"2\"/></font>",
    "<font><b/><sz val=\"11\"/><name val=\"Calibri\"/><family val=\"2\"/></font></fonts>",
    "<fills count=\"2\"><fill><patternFill patternType=\"none\"/></fill>",
    "<fill><patternFill patternType=\"gray125\"/></fill></fills>",
    "<borders count=\"1\"><border><left/><right/><top/><bottom/><diagonal/></border></borders>",
    "<cellStyleXfs count=\"1\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\"/></cellStyleXfs>",
    "<cellXfs count=\"5\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\"/>",
    "<xf numFmtId=\"0\" fontId=\"1\" fillId=\"0\" borderId=\"0\" xfId=\"0\" applyFont=\"1\" applyAlignment=\"1\">",
    "<alignment horizontal=\"left\"/></xf>",
    "<xf numFmtId=\"4\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\" applyNumberFormat=\"1\"/>",
    "<xf numFmtId=\"164\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\" applyNumberFormat=\"1\"/>",
    "<xf numFmtId=\"165\" fontId=\"0\" fillId=\"0\" borderId=\"0\" xfId=\"0\" applyNumberFormat=\"1\"/></cellXfs>",
    "<cellStyles count=\"1\"><cellStyle name=\"Normal\" xfId=\"0\" builtinId=\"0\"/></cellStyles>",
    "<dxfs count=\"0\"/><tableStyles count=\"0\"/></styleSheet>",
);

pub(super) const RELATIONS: &str = concat!(
    "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n",
    "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">",
    "<Relationship Id=\"rId1\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\" Target=\"xl/workbook.xml\"/>",
    "<Relationship Id=\"rId2\" Type=\"http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties\" Target=\"docProps/core.xml\"/>",
    "<Relationship Id=\"rId3\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/extended-properties\" Target=\"docProps/app.xml\"/>",
    "</Relationships>",
);

/// Who made it, and a time that is always the same.
pub(super) const CORE: &str = concat!(
    "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n",
    "<cp:coreProperties xmlns:cp=\"http://schemas.openxmlformats.org/package/2006/metadata/core-properties\" ",
    "xmlns:dc=\"http://purl.org/dc/elements/1.1/\" xmlns:dcterms=\"http://purl.org/dc/terms/\" ",
    "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><dc:creator>jarvis</dc:creator>",
    "<dcterms:created xsi:type=\"dcterms:W3CDTF\">2000-01-01T00:00:00Z</dcterms:created>",
    "<dcterms:modified xsi:type=\"dcterms:W3CDTF\">2000-01-01T00:00:00Z</dcterms:modified></cp:coreProperties>",
);

pub(super) fn content_types(sheets: usize) -> String {
    let mut xml = format!(
        "{HEAD}<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">\
         <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
         <Default Extension=\"xml\" ContentType=\"application/xml\"/>"
    );
    let mut part = |name: &str, kind: &str| {
        let _ =
            write!(xml, "<Override PartName=\"/{name}\" ContentType=\"application/vnd.openxmlformats-{kind}+xml\"/>");
    };
    part("docProps/app.xml", "officedocument.extended-properties");
    part("docProps/core.xml", "package.core-properties");
    part("xl/workbook.xml", "officedocument.spreadsheetml.sheet.main");
    part("xl/styles.xml", "officedocument.spreadsheetml.styles");
    part("xl/sharedStrings.xml", "officedocument.spreadsheetml.sharedStrings");
    for n in 1..=sheets {
        part(&format!("xl/worksheets/sheet{n}.xml"), "officedocument.spreadsheetml.worksheet");
    }
    xml + "</Types>"
}

pub(super) fn workbook_relations(sheets: usize) -> String {
    let mut xml =
        format!("{HEAD}<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">");
    let mut relation = |id: usize, kind: &str, target: &str| {
        let _ = write!(
            xml,
            "<Relationship Id=\"rId{id}\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}\" Target=\"{target}\"/>"
        );
    };
    for n in 1..=sheets {
        relation(n, "worksheet", &format!("worksheets/sheet{n}.xml"));
    }
    relation(sheets + 1, "styles", "styles.xml");
    relation(sheets + 2, "sharedStrings", "sharedStrings.xml");
    xml + "</Relationships>"
}

/// The list of sheets, and for each the range its filter covers: some programs only know the filter by this name.
pub(super) fn workbook(names: &[String], sheets: &[Sheet<'_>]) -> String {
    let mut xml = format!(
        "{HEAD}<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" \
         xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\">\
         <bookViews><workbookView xWindow=\"240\" yWindow=\"15\" windowWidth=\"24000\" windowHeight=\"12000\"/></bookViews><sheets>"
    );
    for (n, name) in names.iter().enumerate() {
        let _ = write!(xml, "<sheet name=\"{}\" sheetId=\"{1}\" r:id=\"rId{1}\"/>", escaped(name), n + 1);
    }
    xml.push_str("</sheets>");
    let mut ranges = String::new();
    for (n, (name, sheet)) in names.iter().zip(sheets).enumerate() {
        if let Some((column, row)) = sheet::last_cell(sheet) {
            // In a reference an apostrophe is written twice.
            let name = escaped(&name.replace('\'', "''"));
            let _ = write!(
                ranges,
                "<definedName name=\"_xlnm._FilterDatabase\" localSheetId=\"{n}\" hidden=\"1\">'{name}'!$A$1:${column}${row}</definedName>"
            );
        }
    }
    if !ranges.is_empty() {
        let _ = write!(xml, "<definedNames>{ranges}</definedNames>");
    }
    xml + "</workbook>"
}

pub(super) fn app(names: &[String]) -> String {
    let count = names.len();
    let mut xml = format!(
        "{HEAD}<Properties xmlns=\"http://schemas.openxmlformats.org/officeDocument/2006/extended-properties\" \
         xmlns:vt=\"http://schemas.openxmlformats.org/officeDocument/2006/docPropsVTypes\"><Application>jarvis</Application>\
         <HeadingPairs><vt:vector size=\"2\" baseType=\"variant\"><vt:variant><vt:lpstr>Worksheets</vt:lpstr></vt:variant>\
         <vt:variant><vt:i4>{count}</vt:i4></vt:variant></vt:vector></HeadingPairs>\
         <TitlesOfParts><vt:vector size=\"{count}\" baseType=\"lpstr\">"
    );
    for name in names {
        let _ = write!(xml, "<vt:lpstr>{}</vt:lpstr>", escaped(name));
    }
    xml + "</vt:vector></TitlesOfParts></Properties>"
}
