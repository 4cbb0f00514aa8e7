//! Reads PyTorch profiler traces into columns and builds the call tree.
