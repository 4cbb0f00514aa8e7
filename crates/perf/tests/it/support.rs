//! Reading reference tables and comparing them with ours, cell by cell.
//!
//! Numbers agree within 1e-6 of each other or 1e-9 absolute, texts exactly, nested cells (kernel details) as values.
//! Rows are matched in order; where two rows tie in the sort order they may stand the other way round, so rows are
//! aligned by their key columns before they are called different.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use jarvis_perf::tables::{Column, Table};

/// A table of texts.
pub(crate) struct Texts {
    pub(crate) headers: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Texts {
    /// Reads a CSV text.
    pub(crate) fn parse(text: &str) -> Self {
        let mut rows: Vec<Vec<String>> = vec![vec![String::new()]];
        let mut quoted = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let row = rows.last_mut().unwrap();
            let cell = row.last_mut().unwrap();
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
                '"' => quoted = !quoted,
                ',' if !quoted => row.push(String::new()),
                '\n' if !quoted => rows.push(vec![String::new()]),
                '\r' if !quoted => {}
                c => cell.push(c),
            }
        }
        rows.retain(|row| row.len() > 1 || !row[0].is_empty());
        let mut rows = rows.into_iter();
        Self { headers: rows.next().unwrap_or_default(), rows: rows.collect() }
    }

    /// The cells of one of our tables as a CSV file would hold them.
    pub(crate) fn of(table: &Table) -> Self {
        let columns: Vec<_> = table.columns.iter().map(Column::texts).collect();
        let row = |i: usize| columns.iter().map(|c| c[i].to_string()).collect();
        Self {
            headers: table.columns.iter().map(|c| c.header.clone()).collect(),
            rows: (0..table.rows()).map(row).collect(),
        }
    }

    fn index(&self, header: &str) -> Option<usize> {
        self.headers.iter().position(|h| h == header)
    }
}

/// A cell as a comparable value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Missing,
    Number(f64),
    Bool(bool),
    Text(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl Value {
    pub(crate) fn of(cell: &str) -> Self {
        let text = unwrapped(cell.trim());
        if text.is_empty() || ["nan", "none"].contains(&text.to_lowercase().as_str()) {
            return Self::Missing;
        }
        if let Ok(number) = text.parse::<f64>() {
            return Self::Number(number);
        }
        if text.starts_with(['[', '(', '{']) {
            let mut reader = Reader { rest: &text };
            if let Some(value) = reader.value().filter(|_| reader.rest.trim().is_empty()) {
                return value;
            }
        }
        Self::Text(text)
    }

    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => {
                a.is_nan() && b.is_nan() || (a - b).abs() <= (1e-6 * a.abs().max(b.abs())).max(1e-9)
            }
            (Self::List(a), Self::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.same(y)),
            (Self::Map(a), Self::Map(b)) => {
                let get = |key: &str| b.iter().find(|(k, _)| k == key).map(|(_, v)| v);
                a.len() == b.len() && a.iter().all(|(key, x)| get(key).is_some_and(|y| x.same(y)))
            }
            _ => self == other,
        }
    }
}

/// Takes `np.float64(…)` and its like off.
fn unwrapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("np.") {
        let tail = &rest[at + 3..];
        let word = tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(tail.len());
        let inner = tail[word..].strip_prefix('(').and_then(|t| t.split_once(')'));
        let numeric = ["float", "int", "uint", "bool"].iter().any(|kind| tail.starts_with(kind));
        let (kept, value, after) = match inner.filter(|(value, _)| numeric && !value.contains('(')) {
            Some((value, after)) => (at, value, after),
            None => (at + 3, "", tail),
        };
        out.push_str(&rest[..kept]);
        out.push_str(value);
        rest = after;
    }
    out + rest
}

/// Reads Python literals with mappings.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn eat(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Option<Value> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next()? {
            '[' => self.list('[', ']'),
            '(' => self.list('(', ')'),
            '{' => {
                self.eat('{');
                let mut entries = Vec::new();
                while !self.eat('}') {
                    let Value::Text(key) = self.value()? else { return None };
                    self.eat(':').then_some(())?;
                    entries.push((key, self.value()?));
                    self.eat(',');
                }
                Some(Value::Map(entries))
            }
            quote @ ('\'' | '"') => self.text(quote),
            _ => {
                let end = self.rest.find([',', ']', ')', '}', ':']).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                Some(match word.trim() {
                    "None" | "nan" | "inf" | "-inf" => Value::Missing,
                    "True" => Value::Bool(true),
                    "False" => Value::Bool(false),
                    number => Value::Number(number.parse().ok()?),
                })
            }
        }
    }

    fn list(&mut self, open: char, close: char) -> Option<Value> {
        self.eat(open);
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(self.value()?);
            self.eat(',');
        }
        Some(Value::List(items))
    }

    fn text(&mut self, quote: char) -> Option<Value> {
        let mut out = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next()?.1 {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    'r' => out.push('\r'),
                    c => out.push(c),
                },
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Some(Value::Text(out));
                }
                c => out.push(c),
            }
        }
        None
    }
}

/// Columns that tell rows apart.
const KEYS: [&str; 13] = [
    "name",
    "op category",
    "Parent cpu_op",
    "Kernel name",
    "Input Dims",
    "Input type",
    "Input Strides",
    "Concrete Inputs",
    "Kernel stream",
    "Collective name",
    "type",
    "process_label",
    "thread_name",
];

/// How two tables agree.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    pub(crate) cells: usize,
    pub(crate) same: usize,
    pub(crate) faults: Vec<String>,
}

impl Agreement {
    pub(crate) fn add(&mut self, other: Self) {
        self.cells += other.cells;
        self.same += other.same;
        self.faults.extend(other.faults);
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} cells agree", self.same, self.cells)
    }
}

/// Compares our table with a reference one.
pub(crate) fn compare(name: &str, ours: &Texts, reference: &Texts) -> Agreement {
    let mut result = Agreement::default();
    let columns: Vec<(usize, Option<usize>)> =
        reference.headers.iter().enumerate().map(|(i, h)| (i, ours.index(h))).collect();
    for (i, _) in columns.iter().filter(|(_, ours)| ours.is_none()) {
        result.faults.push(format!("{name}: no column {}", reference.headers[*i]));
    }
    if ours.rows.len() > reference.rows.len() {
        result.faults.push(format!("{name}: {} rows, not {}", ours.rows.len(), reference.rows.len()));
    }
    for (theirs, ours) in reference.rows.iter().zip(aligned(ours, reference)) {
        result.cells += theirs.len();
        let Some(ours) = ours else {
            result.faults.push(format!("{name}: no row {:?}", &theirs[..theirs.len().min(2)]));
            continue;
        };
        for &(i, at) in &columns {
            let Some(at) = at else { continue };
            if Value::of(&ours[at]).same(&Value::of(&theirs[i])) {
                result.same += 1;
            } else {
                let short = |t: &str| t.chars().take(100).collect::<String>();
                let (a, b) = (short(&ours[at]), short(&theirs[i]));
                result.faults.push(format!("{name}: {} · {}: {a:?}, not {b:?}", theirs[0], reference.headers[i]));
            }
        }
    }
    result
}

/// Our row for each reference row: in order, else by the text of the key columns.
fn aligned<'t>(ours: &'t Texts, reference: &Texts) -> Vec<Option<&'t Vec<String>>> {
    let keys: Vec<(usize, Option<usize>)> =
        KEYS.iter().filter_map(|k| Some((reference.index(k)?, ours.index(k)))).collect();
    let cell = |row: &[String], at: Option<usize>| at.map_or(String::new(), |at| row[at].clone());
    let in_order = ours.rows.len() == reference.rows.len()
        && ours
            .rows
            .iter()
            .zip(&reference.rows)
            .all(|(a, b)| keys.iter().all(|&(theirs, at)| Value::of(&cell(a, at)).same(&Value::of(&b[theirs]))));
    if in_order {
        return ours.rows.iter().map(Some).collect();
    }
    let mut pool: HashMap<Vec<String>, Vec<&Vec<String>>> = HashMap::new();
    for row in ours.rows.iter().rev() {
        pool.entry(keys.iter().map(|&(_, at)| cell(row, at)).collect()).or_default().push(row);
    }
    let key = |row: &[String]| keys.iter().map(|&(theirs, _)| row[theirs].clone()).collect::<Vec<_>>();
    reference.rows.iter().map(|row| pool.get_mut(&key(row)).and_then(Vec::pop)).collect()
}

/// A trace with the folder of its reference tables.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) trace: PathBuf,
    pub(crate) tables: PathBuf,
    /// The arch file the tables were made with.
    pub(crate) arch: Option<PathBuf>,
}

/// The traces below a folder that have reference tables beside them.
pub(crate) fn cases(folder: &Path) -> Vec<Case> {
    let mut found = Vec::new();
    collect(folder, &mut found);
    found.sort_by(|a, b| a.trace.cmp(&b.trace));
    found
}

fn collect(folder: &Path, found: &mut Vec<Case>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            collect(&path, found);
        } else if let Some(name) = file.strip_suffix(".json.gz") {
            let tables = folder.join(format!("{name}_perf_report_csvs"));
            let arch = folder.join("H200_arch.json");
            if tables.is_dir() {
                let arch = arch.is_file().then_some(arch);
                found.push(Case { name: name.to_owned(), trace: path, tables, arch });
            }
        }
    }
}

/// The traces that are part of the repository.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// The folder of all traces, which not every machine has.
pub(crate) fn shared_traces() -> Option<PathBuf> {
    let up = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = up.map(|folder| folder.join("shared/traces")).find(|folder| folder.is_dir());
    if found.is_none() {
        println!("skipped: there is no folder shared/traces with more traces");
    }
    found
}

#[test]
fn comparison_sees_what_differs() {
    let texts = Texts::parse;
    let reference = texts("name,x,details\na,1.0,\"[{'name': 'k, \"\"1\"\"', 'us': np.float64(2.0)}]\"\nb,,\n");
    assert_eq!(reference.rows[0][2], "[{'name': 'k, \"1\"', 'us': np.float64(2.0)}]");
    let same = texts("name,more,x,details\na,z,1.0000001,\"[{'us': 2, 'name': 'k, \"\"1\"\"'}]\"\nb,z,nan,\n");
    assert!(compare("t", &same, &reference).faults.is_empty());
    let swapped = texts("name,x,details\nb,,\na,1,\"[{'name': 'k, \"\"1\"\"', 'us': 2}]\"\n");
    assert!(compare("t", &swapped, &reference).faults.is_empty());
    for (other, faults) in [
        ("name,x,details\na,1.1,\"[{'name': 'k, \"\"1\"\"', 'us': 2}]\"\nb,,\n", 1),
        ("name,x,details\na,1,\"[{'name': 'k, \"\"1\"\"', 'us': 3}]\"\nb,,\n", 1),
        ("name,x,details\na,,\"[{'name': 'k', 'us': 2}]\"\nb,0,\n", 3),
        ("name,x\na,1\nb,\n", 1),
        ("name,x,details\na,1,\"[{'name': 'k, \"\"1\"\"', 'us': 2}]\"\n", 1),
        ("name,x,details\na,1,\"[{'name': 'k, \"\"1\"\"', 'us': 2}]\"\nb,,\nc,,\n", 1),
    ] {
        assert_eq!(compare("t", &texts(other), &reference).faults.len(), faults, "{other}");
    }
}
