"""Everything computed once more from the files, by other code than the kernels, and compared bit for bit.

Shares the parser and the edges of buckets with the pipeline, and nothing else.
"""
