//! The record core of turnlog. FORMAT.md is the home of every layout fact.
