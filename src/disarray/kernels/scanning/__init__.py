"""One segment from its fragments: one winner per key, folds, summaries, rollup parts, restated stretches.

Must not know files or formats: it sees readings in canonical order, whichever instrument wrote them.
"""
