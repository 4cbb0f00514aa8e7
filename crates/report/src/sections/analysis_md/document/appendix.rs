//! The appendix: model, hardware, replay packages.

use crate::Run;
use crate::blocks::Block;
use crate::sections::fair::appendix;

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let mut blocks = vec![
        Block::heading(2, "Appendix"),
        Block::heading(3, "Model Architecture"),
        appendix::model(run),
        Block::heading(3, "Hardware Reference"),
        appendix::hardware(run),
        Block::heading(3, "Replay Artifacts"),
    ];
    blocks.extend(appendix::replay(run));
    blocks
}
