"""The five papers, number by number: what they print, what comes out here, and the page of both.

``python -m benchmarks.reproduction`` (``make reproduce TULLE_DATA=folder``).
"""
