"""The vendors that are known without anybody's help."""
