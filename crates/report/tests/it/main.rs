//! Tests of the renderers against other programs' readers.

mod office;
mod support;
mod workbook;
