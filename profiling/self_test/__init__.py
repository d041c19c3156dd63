"""Proof, on the machine at hand, that the figures of a sweep are what they claim to be.

What is known beforehand is measured as if it were not: a layer against copies of itself, and copies made slower by a
known amount. Then the verdicts are counted, and the intervals that hold the truth.
"""
