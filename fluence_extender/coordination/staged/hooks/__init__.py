"""Hooks: one file for each library through which tasks are submitted, with a function ``install(module, pod)``.

It is called once the library has been imported; ``pod`` is the interceptor's `Pod`.
"""
