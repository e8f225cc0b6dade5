"""The files of one session: segments, the lock, reading and writing them, what their bytes mean.

Owns: everything below a session's folder. Must not know: the index, the state of a session, other sessions' folders.
"""
