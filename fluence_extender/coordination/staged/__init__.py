"""The files that are copied onto a pod's volume and run in the user's own Python, 3.8 or later, without this package.

No file here imports this package or third parties', and no file here may break or delay the user's program.
"""
