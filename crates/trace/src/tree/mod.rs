//! The call tree: host calls nested by time, GPU events under the calls that launched them.
//!
//! ```
//! use jarvis_trace::{TraceBuilder, Tree, TreeOptions};
//!
//! // thread 1   |-- aten::linear -------------|
//! //               |-- aten::addmm --|
//! //                  |launch|
//! // stream 7                  |kernel|
//! let mut b = TraceBuilder::new();
//! b.cpu_op("aten::linear", 0.0, 100.0);
//! b.cpu_op("aten::addmm", 10.0, 50.0);
//! b.launch("cudaLaunchKernel", 20.0, 5.0, 1);
//! b.kernel("gemm", 40.0, 12.5, 1);
//! let trace = b.build();
//! let tree = Tree::build(&trace, TreeOptions::default());
//! let names = |events: &[_]| events.iter().map(|&e| trace.name(e)).collect::<Vec<_>>();
//! let linear = tree.roots()[0];
//! assert_eq!(names(&tree.children(linear).collect::<Vec<_>>()), ["aten::addmm"]);
//! assert_eq!(names(&tree.gpu_events(linear)), ["gemm"]);
//! let launcher = tree.view(&trace).launcher_of(tree.gpu_events(linear)[0]);
//! assert_eq!(launcher.map(|e| trace.name(e)), Some("aten::addmm"));
//! ```

mod annotation;
mod backward;
mod by_key;
mod host;
mod impossible;
mod launchers;
mod link;
mod names;
mod nest;
mod nodes;
mod piles;
mod query;
mod recompute;
mod roles;
mod text;

pub use annotation::Annotations;
pub use backward::BackwardLinks;
pub use host::{HostOperation, host_operations};
pub use launchers::{Communication, Launcher, Launchers};
pub use link::launch_calls;
pub use names::NameIndex;
pub use nodes::{PythonFrames, Tree, TreeOptions};
pub(crate) use query::busy;
pub use query::{ForwardLink, TreeView};
pub use recompute::Recompute;
pub use text::{DEEPEST_INDENT, SubtreeText};
