"""Everything computed once more from the files, by other code than the kernels, and compared bit for bit.

Shares with the pipeline what opens and parses files, the reader of fragments, the digest of readings and the edges of
buckets; order, keys, expressions, folds, bases and rollup parts are made anew. An import contract holds it to that.
"""
