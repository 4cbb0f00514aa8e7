//! GPU performance analyst for PyTorch profiler traces.
