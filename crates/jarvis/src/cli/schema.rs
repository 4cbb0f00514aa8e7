//! `jarvis schema`: the JSON Schemas of the files that `jarvis analyze` writes.

use clap::Args;
use jarvis_perf::nearest::nearest;
use jarvis_report::check::schema::{SCHEMAS, Schema};
use serde_json::{Value, json};

use super::{Failure, Session};

#[derive(Debug, Args)]
#[command(after_help = "\
A schema says what a JSON file of an output folder holds; `jarvis check` holds the files to it.

Examples:
  jarvis schema                                   all of them, with the files they are of
  jarvis schema findings > findings.schema.json
  jarvis schema --json                            all of them, in one document")]
pub(crate) struct SchemaArgs {
    /// Print this one
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(crate) fn run(session: &Session, args: &SchemaArgs) -> Result<(), Failure> {
    let answer = match &args.name {
        // A schema is JSON already.
        Some(name) => find(name)?.text.to_owned(),
        None if session.common.json => {
            let all: Vec<Value> = SCHEMAS.iter().map(|s| json!({"name": s.name, "schema": parsed(s)})).collect();
            format!("{:#}\n", json!({"schema": "jarvis.schemas/1", "schemas": all}))
        }
        None => SCHEMAS.iter().map(|s| format!("{:<24}{}", s.name, title(s))).collect::<Vec<_>>().join("\n") + "\n",
    };
    session.print_answer(&answer)
}

/// The schema of this name; the name of its file or of a file it is of will do.
fn find(name: &str) -> Result<&'static Schema, Failure> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let short = file.strip_suffix(".json").unwrap_or(file);
    let short = short.strip_suffix(".schema").unwrap_or(short);
    SCHEMAS.iter().find(|s| s.name == short).ok_or_else(|| {
        let names = SCHEMAS.iter().map(|s| s.name);
        let help = nearest(short, names.clone()).map_or_else(
            || format!("there are {}", names.collect::<Vec<_>>().join(", ")),
            |near| format!("did you mean `{near}`? `jarvis schema` lists all"),
        );
        Failure::usage(format!("there is no schema `{name}`")).help(help)
    })
}

fn parsed(schema: &Schema) -> Value {
    // Our own schemas parse; a test of theirs sees to it.
    serde_json::from_str(schema.text).unwrap_or_default()
}

fn title(schema: &Schema) -> String {
    parsed(schema)["title"].as_str().unwrap_or_default().to_owned()
}
