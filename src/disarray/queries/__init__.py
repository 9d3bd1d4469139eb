"""What people ask, one view per noun: the command line, REST and Python give the same answers because all ask here.

Knows the control plane and the stores; must not know the worker, Spark, the broker, commands or HTTP.
"""
