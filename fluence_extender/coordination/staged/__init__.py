"""What is copied onto a pod's volume and runs in the user's own Python, 3.8 or later, without this package.

Nothing here imports anything of ours or of third parties, and nothing here may break or delay the user's program.
"""
