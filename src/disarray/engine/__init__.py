"""The only importer of pyspark: the session, and the seam "map this kernel over these tasks".

Must not know queues or commits: it gets descriptors and gives descriptors back.
"""
