//! The README of a package: what to run and which time to beat.

use super::Origin;
use super::describe::args;
use super::package::id;
use super::select::Op;

/// The text of the README.
pub(crate) fn render(op: &Op<'_>, file: &str, origin: Origin<'_>, anonymous: bool) -> String {
    let shapes = if op.entries.len() == 1 { "1 shape".to_owned() } else { format!("{} shapes", op.entries.len()) };
    let device = origin.device_name.filter(|_| !anonymous).unwrap_or("the traced GPU");
    let peaks = origin.platform.filter(|_| !anonymous).map_or_else(String::new, |p| {
        format!(
            " \"Of peak\" is measured against jarvis's figures for {} ({} TB/s).",
            p.name,
            p.mem_bw_gbps.value / 1e3
        )
    });
    let mut text = format!(
        "# {} alone\n\n\
         One PyTorch operation with {shapes} taken from a profiler trace of {device}, to be run without the model.\n\
         It needs PyTorch and a GPU, nothing else.{peaks}\n\n",
        op.name
    );
    text.push_str(&table(op, anonymous));
    text.push_str(&RUN.replace("FILE", file));
    text.push_str(READ);
    let notes = assumptions(op);
    if !notes.is_empty() {
        text.push_str("## Assumptions\n\n");
        text.push_str(&notes);
        text.push('\n');
    }
    text.push_str("Made by jarvis. The Python files are under the Apache License 2.0.\n");
    text
}

const RUN: &str = "\
## Run it

```console
$ unzip FILE -d replay && cd replay
$ python3 replay.py                       # all shapes: time, rate, verdict
$ python3 replay.py --op '#0' --verbose   # one shape, with its kernels
```

`--verify` compares results with the CPU's, `--backward` also times the gradient, `--device cpu` needs no GPU, and
`python3 replay.py --help` lists the rest. Results also go to `replay_results.json`. If the operation comes with a
package of its own, add `--import MODULE`.

To try a kernel of yours, register it for the same operation in a module and pass `--import MODULE`, or change the
call in `Call.__call__` of `utils.py`.

";

const READ: &str = "\
## Read the table

| column | meaning |
| --- | --- |
| trace us | kernel time of one call in the trace: the time to beat |
| replay us | kernel time of one call here: cache flushed before each call, a pause after long ones |
| warm us | time between two events with a warm cache, back to back |
| ratio | replay / trace |
| TFLOPS/s, TB/s, % peak | of the replay |
| verdict | `reproduced` within 10 %, `close` within a third, else `faster_alone` or `slower_alone`; `other_device` if this is another GPU |

Inputs are random numbers of the recorded shapes, strides and types. Times can differ from the trace's because of
cache state, clocks, other work on the GPU, data values, or another version of the libraries. If the kernels differ
from the trace's, the replay says so: then look at that first. To find the cause of a slow kernel, run a tool that
reads hardware counters on this script.

";

fn table(op: &Op<'_>, anonymous: bool) -> String {
    let mut text = String::from("| entry | calls | time to beat (us) | best possible (us) | of peak | arguments |\n");
    text.push_str("| --- | ---: | ---: | ---: | ---: | --- |\n");
    let number = |x: Option<f64>, unit: &str| x.map_or_else(|| "-".to_owned(), |x| format!("{x:.1}{unit}"));
    for (at, entry) in op.entries.iter().enumerate() {
        let row = entry.row;
        text.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | `{}` |\n",
            id(op, at),
            if anonymous { "-".to_owned() } else { row.count.to_string() },
            number(row.kernel_us.mean(), ""),
            number(row.roofline_us, ""),
            number(row.efficiency_percent, " %"),
            args(Some(entry.inputs)),
        ));
    }
    text.push('\n');
    text
}

fn assumptions(op: &Op<'_>) -> String {
    let mut text = String::new();
    for (at, entry) in op.entries.iter().enumerate() {
        for note in &entry.rebuilt.assumptions {
            text.push_str(&format!("- `{}`: {note}\n", id(op, at)));
        }
        if let Some(name) = entry.substituted_for() {
            text.push_str(&format!("- `{}`: stands for `{name}`, which has the same kernels\n", id(op, at)));
        }
    }
    text
}
