"""Messages between agents and workers. The only importer of the AMQP client.

Messages are hints: nothing here decides what a file means or who may decide.
"""
