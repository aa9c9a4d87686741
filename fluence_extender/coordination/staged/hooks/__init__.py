"""Hooks, one file for each library that submits tasks. Each has a function ``install(module, pod)``.

The function is called once the library has been imported; ``pod`` is the interceptor's `Pod`.
"""
