"""The benches; README.md beside this file has the menu."""
