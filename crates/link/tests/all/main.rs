//! Links: the models against their formulas, and the parser.

mod models;
mod parse;
