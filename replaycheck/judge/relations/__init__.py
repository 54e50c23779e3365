"""Relation checks: two plays that must agree bit for bit. One module a guarantee, each with `check(source, case)`.

A check derives the other case from the one it is given, asks the source for both plays and compares outputs and published states. Where a
kernel owes no bitwise agreement nothing is compared: the window checks judge both plays. What a play finds by itself (write-sets,
continuity, pads, finite values) is in its findings.
"""
