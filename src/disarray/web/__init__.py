"""The REST server: routes are declared once; reading of requests, document and tests follow from that.

Must not reach the engine: no JVM on its host.
"""
