"""The images that are built from the Dockerfile, and tests of them that `make image-test` runs."""
