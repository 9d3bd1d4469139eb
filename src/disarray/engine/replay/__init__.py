"""What is stored, made once more from the files by the code of the pipeline, into scratch, and compared to the bit.

`verification` asks whether the numbers are right, in other code. This asks whether this program and these definitions
give the same numbers. It knows nothing of jobs and chunks.
"""
