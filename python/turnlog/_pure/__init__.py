"""The reference core: the contract of the record cores in Python, mirrored file by file in `rust/`."""
