//! Links: the models against their formulas, and their words.

mod models;
mod parse;
