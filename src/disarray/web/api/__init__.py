"""The routes, one module per noun. What they answer is asked of the layers below, not worked out here.

Must not know the server or how a request is read and let in: a route is given values, and gives values back.
"""
